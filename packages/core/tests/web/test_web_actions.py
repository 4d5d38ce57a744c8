"""What can be done on the status page, where it is switched on."""

from __future__ import annotations

import html
import re

import pytest
from webforms import form_token

from alkstore_core.errors import DatabaseError


def told(page):
    """What the page says was done."""
    (text,) = re.findall(r'id="done">(.*?)</p>', page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


@pytest.fixture
def send(logged_in):
    """Return a function that sends a form as a browser does, and follows the answer."""

    async def post(path, fields):
        browser, token = await logged_in(actions=True)
        answer = await browser.post(path, data={"form_token": token, **fields})
        if answer.status_code != 303:
            return answer
        return await browser.get("/" + answer.headers["location"])

    return post


async def left(store, name="q"):
    """How many dead jobs and how many ready ones there are."""
    stats = await store.queue(name).stats()
    return stats.dead, stats.ready


async def test_redrive_one(send, store, dies):
    """One dead job is redriven, and the page says which job it has become."""
    await dies("q", 3)
    page = await send("/redrive?queue=q", {"one": "2"})
    assert "Job 2 was redriven: it is ready, as job 4." == told(page.text)
    assert (2, 1) == await left(store)


async def test_redrive_from_its_page(send, store, dies):
    """From a job's own page one comes to the page of what it has become."""
    await dies("q")
    page = await send("/redrive?queue=q", {"one": "1", "from": "job"})
    assert "Job 1 was redriven: it is ready, as job 2." == told(page.text)
    assert '<h1><span class="quiet">Job</span> 2</h1>' in page.text


async def test_redrive_selected(send, store, dies):
    """Those that were ticked are redriven, no others."""
    await dies("q", 5)
    page = await send("/redrive?queue=q", {"id": ["2", "4"], "shown": ["1", "2", "3", "4", "5"]})
    assert "2 jobs were redriven, and are ready under new ids." == told(page.text)
    assert [1, 3, 5] == [job.id for job in await store.queue("q").dead_jobs()]


async def test_redrive_all_shown(send, store, dies):
    """All that the page showed are redriven, but none that it did not show."""
    await dies("q", 4)
    page = await send("/redrive?queue=q", {"shown": ["1", "2", "3"], "id": ["1"], "all": "yes"})
    assert "3 jobs were redriven, and are ready under new ids." == told(page.text)
    assert (1, 3) == await left(store)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["1", "2"], "1 job was redriven, and is ready under a new id. 1 was already gone"),
        (["1"], "No job was redriven. 1 was already gone"),
        (["1", "77"], "No job was redriven. 2 were already gone"),
    ],
)
async def test_already_gone(send, store, dies, ids, said):
    """What somebody else has redriven meanwhile is told from what was redriven now."""
    await dies("q", 2)
    await store.queue("q").redrive(1)
    assert told((await send("/redrive?queue=q", {"id": ids})).text).startswith(said)


async def test_repeated_ids_count_once(send, dies):
    """A job that a form names twice is one job."""
    await dies("q", 2)
    page = await send("/redrive?queue=q", {"id": ["1", "1", "2"]})
    assert "2 jobs were redriven, and are ready under new ids." == told(page.text)


async def test_redrive_an_outbox(send, store):
    """A dead message of an outbox is redriven as well."""
    outbox = store.outbox("hooks")
    await outbox.enqueue(1)
    await (await outbox.backing.claim_one("w")).fail()
    page = await send("/redrive?outbox=hooks", {"one": "1"})
    assert "Job 1 was redriven" in told(page.text)
    assert (0, 1) == ((s := await outbox.backing.stats()).dead, s.ready)


@pytest.mark.parametrize(
    "fields",
    [{}, {"all": "yes"}, {"id": ["x"]}, {"id": ["1", "-1"]}, {"one": ""}, {"shown": ["1"]}],
)
async def test_nothing_selected(send, store, dies, fields):
    """A form that names no job, or what is none, does nothing and says so."""
    await dies("q", 2)
    assert 400 == (await send("/redrive?queue=q", fields)).status_code
    assert (2, 0) == await left(store)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/redrive?queue=q&after=x", {"one": "1"}),
        ("/redrive?queue=q&after=-1", {"id": ["1", "2"]}),
        ("/redrive?queue=q", {"one": "1", "from": ["job", "job"]}),
        ("/redrive?queue=q&outbox=q", {"one": "1"}),
        ("/redrive", {"one": "1"}),
        ("/redrive?queue=", {"one": "1"}),
        ("/redrive?queue=q", {"id": ["1", "x"]}),
        ("/purge?queue=q", {"age": ["all", "all"], "sure": "yes"}),
        ("/purge?queue=q", {"age": "all", "sure": ["yes", "yes"]}),
        ("/purge?queue=q&outbox=q", {"age": "all", "sure": "yes"}),
        ("/purge", {"age": "all", "sure": "yes"}),
        ("/purge?queue=", {"age": "all", "sure": "yes"}),
    ],
)
async def test_what_is_malformed_has_done_nothing(send, store, dies, path, fields):
    """Whoever reads that the request was wrong sends it again."""
    await dies("q", 2)
    assert 400 == (await send(path, fields)).status_code
    assert (2, 0) == await left(store)


async def test_failure_half_way(send, store, dies, engine):
    """When the database fails in the midst it is said what had been done by then."""
    await dies("q", 3)
    redriven = engine.auto.redrive

    async def redrive(queue, job_id, *, wake=()):
        if job_id == 3:
            raise DatabaseError("the server is gone")
        return await redriven(queue, job_id, wake=wake)

    engine.auto.redrive = redrive
    answer = await send("/redrive?queue=q", {"id": ["1", "2", "3"]})
    assert 503 == answer.status_code
    assert "2 redriven and 0 already gone when the database failed at job 3" in answer.text
    assert "Whether that job was redriven is unknown" in answer.text


@pytest.mark.parametrize(
    ("age", "deleted"), [("all", 3), ("hour", 2), ("day", 1), ("week", 0), ("month", 0)]
)
async def test_purge(send, store, dies, clock, age, deleted):
    """Dead jobs that died long enough ago are deleted, and the page says how many."""
    await dies("q")
    await clock.advance(86_400)
    await dies("q")
    await clock.advance(3_601)
    await dies("q")
    page = await send("/purge?queue=q", {"age": age, "sure": "yes"})
    assert (3 - deleted, 0) == await left(store)
    expected = {0: "No dead job was old enough: nothing was deleted.", 1: "1 dead job was deleted."}
    assert expected.get(deleted, f"{deleted} dead jobs were deleted.") == told(page.text)


@pytest.mark.parametrize(
    "fields",
    [{"age": "all"}, {"sure": "yes"}, {"age": "", "sure": "yes"}, {"age": "x", "sure": "yes"}],
)
async def test_purge_unsure(send, store, dies, fields):
    """Nothing is deleted unless it is said what, and that one is sure."""
    await dies("q")
    answer = await send("/purge?queue=q", fields)
    assert (400, True) == (answer.status_code, "Nothing was deleted" in answer.text)
    assert (1, 0) == await left(store)


async def test_scripts(client, store, dies):
    """Who shows the token itself needs no form's token."""
    await dies("q")
    browser = await client(actions=True)
    assert 303 == (await browser.post("/redrive?queue=q", data={"one": "1"})).status_code
    assert (0, 1) == await left(store)


@pytest.mark.parametrize("token", ["", "0" * 64, "é", "\ud800"])
async def test_foreign_form(logged_in, store, dies, token):
    """A form without the session's token is refused, although the browser sends the cookie."""
    await dies("q")
    browser, _ = await logged_in(actions=True)
    for path in ("/redrive?queue=q", "/purge?queue=q", "/logout"):
        fields = {"form_token": token.encode("utf-8", "surrogatepass"), "one": "1", "age": "all"}
        assert 403 == (await browser.post(path, data={**fields, "sure": "yes"})).status_code
    assert (1, 0) == await left(store)


async def test_form_of_another_session(client, make_app, logged_in, store, dies):
    """The form's token of one session does not do for another one."""
    await dies("q")
    browser, _ = await logged_in(actions=True)
    _, other = await logged_in(actions=True)
    answer = await browser.post("/redrive?queue=q", data={"form_token": other, "one": "1"})
    assert 403 == answer.status_code


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_site(logged_in, store, dies, site):
    """What a browser says to come from another site is refused, whatever it carries."""
    await dies("q")
    browser, token = await logged_in(actions=True)
    answer = await browser.post(
        "/redrive?queue=q",
        data={"form_token": token, "one": "1"},
        headers={"sec-fetch-site": site},
    )
    assert 403 == answer.status_code
    assert (1, 0) == await left(store)


async def test_forms_without_a_token(client, store, dies):
    """Where everybody is let in, forms are still those of a page that this browser has loaded."""
    await dies("q", 2)
    open_to_all = {"token": None, "insecure_without_token": True, "actions": True}
    browser = await client(bearer=None, **open_to_all)
    page = await browser.get("/queue?queue=q&state=dead")
    assert 403 == (await browser.post("/redrive?queue=q", data={"one": "1"})).status_code
    fields = {"one": "1", "form_token": form_token(page.text)}
    assert 303 == (await browser.post("/redrive?queue=q", data=fields)).status_code
    assert (1, 1) == await left(store)


async def test_looking_does_nothing(logged_in, store, dies):
    """An address that is only looked at changes nothing."""
    await dies("q")
    browser, token = await logged_in(actions=True)
    for path in ("/redrive", "/purge", "/logout", "/login"):
        parameters = {"queue": "q", "one": "1", "age": "all", "sure": "yes", "form_token": token}
        assert 405 == (await browser.get(path, params=parameters)).status_code
    assert (1, 0) == await left(store)


async def test_large_and_strange_forms(logged_in):
    """A form that is none of ours is refused before it is read to its end."""
    browser, token = await logged_in(actions=True)
    path = "/redrive?queue=q"
    assert 413 == (await browser.post(path, data={"id": "1" * 70_000})).status_code
    assert 415 == (await browser.post(path, json={"id": 1})).status_code
    assert 400 == (await browser.post(path, data={"form_token": [token, token]})).status_code
    assert 400 == (await browser.post(path, data={"id": ["1"] * 2_000})).status_code


@pytest.mark.parametrize("done", ["redriven:9:0", "redriven:9:0.", "redriven:9:0." + "0" * 64, "."])
async def test_nobody_puts_words_into_our_mouth(look, done):
    """A link of somebody else's cannot make the page say that something was done."""
    page = await look("/queue", queue="q", state="dead", done=done)
    assert 200 == page.status_code
    assert 'id="done"' not in page.text
