"""What the tests of the status page share."""

import re

TOKEN = "a-token-of-sixteen-characters"


def form_token(page):
    """The token that the forms of a page carry."""
    return re.search(r'name="form_token" value="([0-9a-f]{64})"', page)[1]
