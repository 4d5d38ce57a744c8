"""Answers: pages out of templates, and the headers that every one of them carries."""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from alkstore_core import __version__
from alkstore_core.showing import since
from alkstore_core.web import shown

if TYPE_CHECKING:
    from starlette.requests import Request

    from alkstore_core.web.access import Access, Visit

REFRESH_S: Final = 5

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
}

_ASSETS: Final = {
    "style.css": "text/css",
    "live.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class Pages:
    """Makes answers for one application."""

    def __init__(self, access: Access, title: str, *, actions: bool) -> None:
        self._access = access
        self._actions = actions
        self._assets = {
            name: (files("alkstore_core.web") / "static" / name).read_bytes() for name in _ASSETS
        }
        self._common = {
            "digest": hashlib.sha256(b"".join(self._assets.values())).hexdigest()[:12],
            "title": title,
        }

    def page(
        self, template: str, visit: Visit | None = None, status: int = 200, **context: Any
    ) -> Response:
        """A page. Without a `visit` it shows nothing that only those may see who are let in.

        With one its `context` has to have the store's time as `now`.
        """
        inside = visit is not None
        text = (
            _environment()
            .get_template(template)
            .render(
                refresh=REFRESH_S,
                inside=inside,
                leavable=visit is not None and bool(visit.session) and not self._access.open_to_all,
                form_token=self._access.form_token(visit) if visit is not None else "",
                actions=inside and self._actions,
                **self._common,
                **context,
            )
        )
        return HTMLResponse(text, status, HEADERS)

    def failure(
        self, status: int, heading: str, detail: str, headers: dict[str, str] | None = None
    ) -> Response:
        """A page that says what could not be done."""
        response = self.page("failure.html", status=status, heading=heading, detail=detail)
        response.headers.update(headers or {})
        return response

    async def asset(self, request: Request) -> Response:
        """A file that pages are shown with; its address changes with what is in it."""
        name = request.url.path.rpartition("/")[2]
        headers = {**HEADERS, "Cache-Control": "max-age=604800, immutable"}
        return Response(self._assets[name], headers=headers, media_type=_ASSETS[name])


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("alkstore_core.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        calendar=shown.calendar,
        duration=shown.duration,
        excerpt=shown.excerpt,
        shortened=shown.shortened,
        since=since,
    )
    environment.globals.update(distance=shown.distance, url=shown.url, version=__version__)
    return environment


def download(data: bytes, name: str) -> Response:
    """Bytes that a browser saves, and never shows."""
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return Response(data, headers=headers, media_type="application/octet-stream")


def see_other(location: str) -> Response:
    """Go and look there."""
    return RedirectResponse(location or "./", 303, HEADERS)
