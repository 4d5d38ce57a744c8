"""Logging in and out."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException

from alkstore_core.web import reading
from alkstore_core.web.rendering import see_other

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from alkstore_core.web.access import Access, Visit
    from alkstore_core.web.rendering import Pages

_OURS: Final = re.compile(r"(queue|job|stream|event)?(\?[!-\[\]-~]*)?")
"""Where a login may lead: to a page of ours, and nowhere else."""

_log = logging.getLogger(__name__)


class Entrance:
    """What those see who are not let in yet."""

    def __init__(self, access: Access, pages: Pages) -> None:
        self._access = access
        self._pages = pages

    def ask(self, request: Request) -> Response:
        """Ask for the token, and remember what was wanted."""
        wanted = request.url.path.rpartition("/")[2]
        if request.url.query:
            wanted += f"?{request.url.query}"
        return self._form(wanted if request.method == "GET" else "", wrong=False)

    async def login(self, request: Request) -> Response:
        """Open a session for whoever has the token."""
        check_site(request)
        fields = await reading.form(request)
        wanted = reading.field(fields, "wanted") or ""
        if not self._access.accepts(reading.field(fields, "token") or ""):
            _log.warning("somebody gave the status page a token that is not its own")
            return self._form(wanted, wrong=True)
        response = see_other(wanted if _OURS.fullmatch(wanted) else "")
        self._access.set_cookie(request, response, self._access.new_session())
        return response

    async def logout(self, request: Request, visit: Visit) -> Response:
        """Take the browser's session away."""
        await own_form(request, self._access, visit)
        response = see_other("")
        self._access.set_cookie(request, response, "")
        return response

    def _form(self, wanted: str, *, wrong: bool) -> Response:
        response = self._pages.page("login.html", status=401, wanted=wanted, wrong=wrong)
        response.headers["WWW-Authenticate"] = "Bearer"
        return response


async def own_form(request: Request, access: Access, visit: Visit) -> reading.Form:
    """The fields of a form that one of our pages has sent, and no other site.

    Raises:
        HTTPException: it is from elsewhere, or cannot be read.

    """
    check_site(request)
    fields = await reading.form(request)
    if not access.accepts_form(visit, reading.field(fields, "form_token") or ""):
        raise HTTPException(
            403, "This form belongs to another session. Go back, load its page again, and send it."
        )
    return fields


def check_site(request: Request) -> None:
    """Refuse what a browser says that another site has sent.

    Raises:
        HTTPException: it has.

    """
    if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise HTTPException(403, "This form was sent by another site.")
