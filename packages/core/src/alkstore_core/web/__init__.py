"""A web page that shows what is in a store. Needs the extra `web`."""

from alkstore_core.web.app import status_app
from alkstore_core.web.server import serve

__all__ = ["serve", "status_app"]
