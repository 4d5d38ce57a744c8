"""Who is let in: whoever shows the token, or a session that was opened with it."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final

from attrs import frozen

from alkstore_core.errors import DatabaseError
from alkstore_core.integers import check_class

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from alkstore_core.clock import Clock

COOKIE: Final = "alkstore_status"

SESSION_S: Final = 12 * 3600
"""A session ends after so many seconds."""

MIN_TOKEN: Final = 16
"""A shorter token could be found by trying, also out of a session that somebody got hold of."""


@frozen(kw_only=True)
class Visit:
    """A request that is let in. `session` is empty where it has shown the token itself."""

    session: str
    fresh: bool = False


class Access:
    """The token's keeper. Sessions are signed, not stored: all processes with the token know them.

    A new token ends them all. Without a token everybody is let in, and a session is only what
    the forms of one browser are told by.
    """

    def __init__(self, token: str | None, clock: Clock) -> None:
        self._clock = clock
        self._token = None if token is None else _checked(token)
        secret = secrets.token_bytes() if self._token is None else self._token
        self._key = hmac.digest(secret, b"alkstore status page", "sha256")

    @property
    def open_to_all(self) -> bool:
        """Whether there is no token."""
        return self._token is None

    def admit(self, request: Request) -> Visit | None:
        """Let a request in, or not."""
        shown = request.headers.getlist("authorization")
        if shown and self._token is not None:
            scheme, _, token = shown[0].partition(" ")
            admitted = len(shown) == 1 and scheme.lower() == "bearer" and self.accepts(token)
            return Visit(session="") if admitted else None
        for session in _sessions(request):
            if self._is_live(session):
                return Visit(session=session)
        return Visit(session=self.new_session(), fresh=True) if self.open_to_all else None

    def accepts(self, token: str) -> bool:
        """Whether this is the token; it takes as long whatever it is."""
        wanted = self._token
        return wanted is not None and hmac.compare_digest(
            self._mac("token", token.strip()), self._mac("token", wanted.decode())
        )

    def new_session(self) -> str:
        """Open a session."""
        text = f"{self._clock.now() + SESSION_S}.{secrets.token_hex(16)}"
        return f"{text}.{self._mac('session', text)}"

    def form_token(self, visit: Visit) -> str:
        """What the forms of a session carry, and no other site can know."""
        return self._mac("form", visit.session)

    def accepts_form(self, visit: Visit, token: str) -> bool:
        """Whether a form is one of ours; who has shown the token itself needs none."""
        return not visit.session or hmac.compare_digest(
            self.form_token(visit).encode(), token.encode("utf-8", "surrogatepass")
        )

    def sign(self, text: str) -> str:
        """Make a text that can be told to be ours when it comes back."""
        return f"{text}.{self._mac('text', text)}"

    def signed(self, shown: str) -> str | None:
        """Give the text, if it is ours."""
        text, _, mac = shown.rpartition(".")
        ours = self._mac("text", text).encode()
        return text if hmac.compare_digest(ours, mac.encode("utf-8", "surrogatepass")) else None

    def set_cookie(self, request: Request, response: Response, session: str) -> None:
        """Give the browser a session, or with an empty one take it away."""
        response.set_cookie(
            COOKIE,
            session,
            max_age=SESSION_S if session else 0,
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def _is_live(self, session: str) -> bool:
        text, _, mac = session.rpartition(".")
        if not hmac.compare_digest(self._mac("session", text).encode(), mac.encode()):
            return False
        return int(text.partition(".")[0]) > self._clock.now()

    def _mac(self, purpose: str, text: str) -> str:
        message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256").hex()


def _checked(token: str) -> bytes:
    check_class("token", token, str)
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise DatabaseError(
            f"the status page's token has to be {MIN_TOKEN} characters of ASCII or more, without "
            'spaces: make one with python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    return token.encode()


def _sessions(request: Request) -> list[str]:
    # All cookies of the name: a page mounted nearer to the root may have set one as well.
    pairs = [
        pair.strip().partition("=")
        for header in request.headers.getlist("cookie")
        for pair in header.split(";")
    ]
    return [value for name, _, value in pairs if name == COOKIE]
