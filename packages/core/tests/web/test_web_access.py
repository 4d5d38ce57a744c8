"""Who is let in to the status page, and what every answer carries."""

from __future__ import annotations

import logging

import pytest
from webforms import TOKEN

from alkstore_core.errors import DatabaseError
from alkstore_core.web import app
from alkstore_core.web.access import SESSION_S

PATHS = [
    "/",
    "/queue?queue=q",
    "/job?queue=q&id=1",
    "/job-payload?queue=q&id=1",
    "/stream?stream=s",
]


@pytest.mark.parametrize(
    "options",
    [
        {"token": None},
        {"insecure_without_token": True},
        {"token": ""},
        {"token": "x" * 15},
        {"token": "with a space in the middle"},
        {"token": "einige-ümläute-und-so-weiter"},
        {"token": b"bytes-of-sixteen-characters"},
    ],
)
def test_constructor_refuses(make_app, options):
    """There is no page without a token, unless it is said so, and none with a guessable one."""
    with pytest.raises(DatabaseError, match="token"):
        make_app(**options)


@pytest.mark.parametrize("path", [*PATHS, "/event?stream=s&offset=1", "/event-payload?stream=s"])
@pytest.mark.parametrize("bearer", [None, "", TOKEN[:-1], TOKEN + "x", "é" * 16])
async def test_asks_for_the_token(client, store, path, bearer):
    """Who does not show the token sees a form that asks for it, and nothing of the store."""
    await store.queue("secret-name").enqueue("secret-payload")
    page = await (await client(bearer=None)).get(
        path, headers={} if bearer is None else {"authorization": f"Bearer {bearer}".encode()}
    )
    assert (401, "Bearer") == (page.status_code, page.headers["www-authenticate"])
    assert 'type="password"' in page.text
    assert "secret" not in page.text


@pytest.mark.parametrize("path", ["/redrive?queue=q", "/purge?queue=q", "/logout"])
async def test_actions_ask_too(client, dies, store, path):
    """Nothing is done for who is not let in."""
    await dies("q")
    browser = await client(bearer=None, actions=True)
    answer = await browser.post(path, data={"one": "1", "age": "all", "sure": "yes"})
    assert 401 == answer.status_code
    assert 1 == (await store.queue("q").stats()).dead


async def test_several_authorizations_are_none(client):
    """A request that shows two tokens is not let in, whichever they are."""
    browser = await client(bearer=None)
    shown = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer another")]
    assert 401 == (await browser.get("/", headers=shown)).status_code


async def test_session(client):
    """The token opens a session; the cookie is not the token, and no script reads it."""
    browser = await client(bearer=None)
    answer = await browser.post("/login", data={"token": TOKEN, "wanted": "queue?queue=q"})
    assert (303, "queue?queue=q") == (answer.status_code, answer.headers["location"])
    cookie = answer.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))
    assert "secure" not in cookie
    assert TOKEN not in cookie
    assert 200 == (await browser.get("/")).status_code


async def test_secure_cookie(client):
    """Over TLS the cookie never travels in the clear."""
    browser = await client(bearer=None, base="https://page.test")
    answer = await browser.post("/login", data={"token": TOKEN})
    assert "secure" in answer.headers["set-cookie"].lower().split("; ")


async def test_wrong_token(client, caplog):
    """A wrong token opens nothing, and is not written down anywhere."""
    browser = await client(bearer=None)
    with caplog.at_level(logging.DEBUG):
        answer = await browser.post("/login", data={"token": "wrong-token-of-somebody"})
    assert 401 == answer.status_code
    assert "set-cookie" not in answer.headers
    assert "wrong-token-of-somebody" not in answer.text + caplog.text
    assert "That is not the token" in answer.text


async def test_the_token_is_in_no_address_and_no_log(client, dies, caplog):
    """Neither what is answered nor what is logged holds the token."""
    await dies("q", 3)
    browser = await client(actions=True)
    with caplog.at_level(logging.DEBUG):
        for path in [*PATHS, "/queue?queue=q&state=dead", "/missing"]:
            answer = await browser.get(path)
            assert TOKEN not in answer.text + str(answer.headers)
        answer = await browser.post("/redrive?queue=q", data={"one": "1"})
    assert TOKEN not in caplog.text + str(answer.headers)


async def test_session_ends(logged_in, clock, monkeypatch):
    """A session ends after twelve hours, by the clock of the host that serves."""
    monkeypatch.setattr(app, "SystemClock", lambda: clock)
    browser, _ = await logged_in()
    await clock.advance(SESSION_S - 1)
    assert 200 == (await browser.get("/")).status_code
    await clock.advance(1)
    assert 401 == (await browser.get("/")).status_code


async def test_sessions_survive_the_process(client, make_app, logged_in):
    """Another process with the same token knows the session; one with another does not."""
    browser, _ = await logged_in()
    for token, status in [(TOKEN, 200), ("another-token-of-that-kind", 401)]:
        other = await client(make_app(token=token), bearer=None)
        other.cookies = browser.cookies
        assert status == (await other.get("/")).status_code


@pytest.mark.parametrize(
    "forged", ["", ".", "9999999999.00.00", "9999999999.abc", "é.ü.x", TOKEN, "9" * 5000 + ".a.b"]
)
async def test_forged_session(client, forged):
    """A cookie that we have not made lets nobody in."""
    browser = await client(bearer=None)
    cookie = f"alkstore_status={forged}".encode()
    assert 401 == (await browser.get("/", headers={"cookie": cookie})).status_code


async def test_changed_session(logged_in):
    """A session whose end was moved is none."""
    browser, _ = await logged_in()
    end, nonce, mac = browser.cookies["alkstore_status"].split(".")
    browser.cookies.set("alkstore_status", f"{int(end) + 1}.{nonce}.{mac}", domain="page.test")
    assert [401] == [(await browser.get("/")).status_code]


async def test_cookies_of_two_pages(logged_in):
    """A page that is mounted nearer to the root does not hide the session of this one."""
    browser, _ = await logged_in()
    ours = browser.cookies["alkstore_status"]
    both = {"cookie": f"alkstore_status={ours}; other=1; alkstore_status=1.2.3"}
    browser.cookies.clear()
    assert 200 == (await browser.get("/", headers=both)).status_code


async def test_logout(logged_in):
    """Logging out takes the session away."""
    browser, token = await logged_in()
    answer = await browser.post("/logout", data={"form_token": token})
    assert 303 == answer.status_code
    assert 401 == (await browser.get("/")).status_code


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.test/",
        "//evil.test",
        "/\\evil.test",
        "job\\..",
        "javascript:alert(1)",
        "../x",
        "queue?a\r\nset-cookie:b=c",
        "redrive",
        "job/../../x",
    ],
)
async def test_login_leads_nowhere_else(client, wanted):
    """A login leads to a page of ours only."""
    browser = await client(bearer=None)
    answer = await browser.post("/login", data={"token": TOKEN, "wanted": wanted})
    assert (303, "./") == (answer.status_code, answer.headers["location"])


async def test_login_remembers_what_was_wanted(client):
    """The form leads on to the page that was asked for."""
    page = await (await client(bearer=None)).get("/queue?queue=a%2Fb&state=dead")
    assert 'name="wanted" value="queue?queue=a%2Fb&amp;state=dead"' in page.text


async def test_without_a_token(client, dies, store):
    """When it is said that everybody may look, everybody may."""
    await dies("q")
    browser = await client(bearer=None, token=None, insecure_without_token=True)
    page = await browser.get("/")
    assert 200 == page.status_code
    assert "Log out" not in page.text


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/queue", "/style.css", "/job?queue=q&id=9", "/login", "/broken"]
)
@pytest.mark.parametrize("bearer", [None, TOKEN])
async def test_headers(client, make_app, path, bearer):
    """Every answer, also one that refuses, keeps browsers from doing more than showing it."""
    answer = await (await client(make_app(), bearer=bearer)).get(path)
    policy = dict(d.split(" ", 1) for d in answer.headers["content-security-policy"].split("; "))
    assert {"'none'"} == {policy[k] for k in ("default-src", "base-uri", "frame-ancestors")}
    assert "'self'" == policy["script-src"] == policy["style-src"] == policy["form-action"]
    assert ("nosniff", "DENY") == (
        answer.headers["x-content-type-options"],
        answer.headers["x-frame-options"],
    )
    assert path == "/style.css" or "no-store" == answer.headers["cache-control"]
