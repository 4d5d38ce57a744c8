"""What the status page shows."""

from __future__ import annotations

import asyncio
import html
import json
import re

import httpx
import pytest
from dict_engine import until
from starlette.applications import Starlette
from starlette.routing import Mount
from webforms import TOKEN

from alkstore_core import EnqueueOpts
from alkstore_core.errors import DatabaseError

NASTY = "<script>alert('x')</script>\"&amp;"
NAMES = ["a/b", "..", "%2e%2e", "%", "ü ñ €", "a?b#c&d=e", "x\ny", NASTY, "a" * 255, ".", "//", "+"]


def rows(page):
    """The texts of the rows of all tables."""
    found = re.findall(r"<tr data-key.*?</tr>", page, flags=re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in found]


def links(page):
    """The addresses that a page leads to."""
    return [html.unescape(link) for link in re.findall(r'<a [^>]*href="([^"]*)"', page)]


async def test_overview(look, store, dies, clock):
    """Queues, outboxes, streams with their consumers' lag, locks and schedules are there."""
    await store.queue("mail").enqueue_many([1, 2])
    await store.queue("mail").enqueue(3, EnqueueOpts(delay=60))
    await dies("images")
    await store.outbox("hooks").enqueue(1)
    await store.stream("orders").publish_many(range(5))
    await store.stream("orders").save_offset("billing", 2)
    await store.try_lock("import", "host-1", 3700)
    await store.schedule("digest", "@every 15m", "mail", None)
    await clock.advance(65)
    assert [
        "images 0 – 0 0 0 0 1",
        "mail 3 1 min 5 s 0 0 0 0 0",
        "hooks outbox 1 1 min 5 s 0 0 0 0 0",
        "orders 5 1 5 billing 2 3",
        "import host-1 1 1 h",
        "digest @every 15m mail in 13 min 55 s",
    ] == rows((await look("/")).text)


async def test_overdue_schedule(look, store, clock):
    """A schedule that nobody has fired in time is told from one that waits."""
    await store.schedule("digest", "@every 15m", "mail", None)
    await clock.advance(1000)
    assert ["digest @every 15m mail overdue, 1 min 40 s ago"] == rows((await look("/")).text)


async def test_nothing(look):
    """An empty store is said to be empty."""
    page = (await look("/")).text
    assert 4 == page.count('class="empty"')


async def test_jobs_by_state(look, store, clock):
    """The jobs of a queue stand by id, each with where it stands."""
    queue = store.queue("q")
    await queue.enqueue({"n": 1})
    await queue.claim_one("worker-1")
    await queue.enqueue("due", EnqueueOpts(delay=90, priority=7))
    await queue.enqueue("old", EnqueueOpts(expires=5))
    await clock.advance(10)
    assert [
        '1 processing, 4 min 50 s left worker-1 1 of 3 0 {"n":1}',
        '2 delayed, in 1 min 20 s 0 of 3 7 "due"',
        '3 expired , 5 s ago 0 of 3 0 "old"'.replace(" ,", ","),
    ] == [row.replace(" ,", ",") for row in rows((await look("/queue", queue="q")).text)]
    pending = rows((await look("/queue", queue="q", state="pending")).text)
    assert ["2", "3"] == [row.split()[0] for row in pending]
    await clock.advance(300)
    page = (await look("/queue", queue="q", state="processing")).text
    assert ["1 lapsed, 10 s ago worker-1"] == [row.replace(" ,", ",")[:27] for row in rows(page)]


async def test_pages(look, store):
    """A long queue is read page by page, each job once, in either state."""
    ids = await store.queue("q").enqueue_many(range(120))
    seen = []
    address = "/queue?queue=q&state=pending"
    pages = 0
    while address:
        page = (await look(address)).text
        seen += [int(row.split()[0]) for row in rows(page)]
        following = [link for link in links(page) if "after=" in link]
        address = f"/{following[-1]}" if following else None
        pages += 1
    assert (ids, 3) == (seen, pages)


async def test_a_page_is_a_page(look, store, engine, monkeypatch):
    """However many jobs there are, a page asks for no more than it shows, and one."""
    asked = []
    listed = engine.auto.list_jobs

    async def list_jobs(queue, state, limit, after_id):
        asked.append(limit)
        return await listed(queue, state, limit, after_id)

    monkeypatch.setattr(engine.auto, "list_jobs", list_jobs)
    await store.queue("q").enqueue_many(range(500))
    assert 50 == len(rows((await look("/queue", queue="q")).text))
    assert [51] == asked


async def test_job(look, store, clock):
    """A job's page has its payload laid out, its headers, times, attempts and last error."""
    queue = store.queue("q")
    await queue.enqueue({"to": ["ada"]}, EnqueueOpts(headers={"tenant": "north"}, expires=90))
    await (await queue.claim_one("worker-1")).retry("first line\n  second line", 60)
    page = html.unescape((await look("/job", queue="q", id=1)).text)
    for shown in (
        json.dumps({"to": ["ada"]}, indent=2),
        "<dt>tenant</dt><dd>north</dd>",
        "first line\n  second line",
        "<dt>Attempts</dt><dd>1 of 3</dd>",
        "1970-01-01 00:16:40 UTC",
        "(in 1 min)",
    ):
        assert shown in page


@pytest.mark.parametrize("name", NAMES)
async def test_names(look, store, dies, name):
    """Whatever a queue, an outbox or a stream is called, its links lead to it."""
    await dies(name)
    await store.queue(name).enqueue(1)
    await store.outbox(name).enqueue(1)
    await store.stream(name).publish(1)
    await store.stream(name).save_offset(name, 1)
    await store.try_lock(name, name, 60)
    page = (await look("/")).text
    assert NASTY not in page
    found = [link for link in links(page) if link not in {"./", "#main"}]
    assert 4 == len(found)  # the queue, its dead jobs, the outbox, the stream
    for link in found:
        shown = await look("/" + link)
        assert 200 == shown.status_code
        heading = re.search(r"</span> (.*?)</h1>", shown.text, flags=re.DOTALL)[1]
        assert name == html.unescape(heading)
        inner = [target for target in links(shown.text) if re.match("job|event", target)]
        assert inner
        for target in inner:
            assert 200 == (await look("/" + target)).status_code


@pytest.mark.parametrize("path", ["/", "/queue?queue=q", "/queue?queue=q&state=dead"])
async def test_escaping(look, store, path):
    """Nothing that is stored becomes markup."""
    queue = store.queue("q")
    await queue.enqueue_many([{NASTY: NASTY}] * 3, EnqueueOpts(headers={NASTY: NASTY}))
    dead, held = await queue.claim_batch(NASTY, 2)
    await dead.fail(NASTY)
    await store.schedule(NASTY, "@every 1h", NASTY, NASTY)
    for address in (path, "/job?queue=q&id=1", f"/job?queue=q&id={held.job.id}"):
        page = (await look(address)).text
        assert "<script>alert" not in page
        assert 1 == page.count("<script")


@pytest.mark.parametrize(
    "path",
    ["/queue", "/queue?queue=q&outbox=q", "/queue?queue=", "/queue?queue=__alkstore_x"]
    + [
        f"/queue?queue=q&after={cursor}"
        for cursor in ("", "x", "-1", "1e3", "\u0661", 2**63, "9" * 99)
    ]
    + ["/queue?queue=q&state=done", "/job?queue=q", "/job?queue=q&id=x", "/stream"]
    + [
        "/stream?stream=s&after=x",
        "/event?stream=s",
        "/stream?stream=%00",
        "/queue?queue=" + "a" * 256,
    ],
)
async def test_malformed(look, path):
    """What cannot be meant is the asker's fault, and said to be."""
    answer = await look(path)
    assert 400 == answer.status_code
    assert "This cannot be asked for" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/job?queue=q&id=77",
        "/event?stream=s&offset=77",
        "/event?stream=s&offset=0",
        "/x",
        "/queue/?queue=q",
    ],
)
async def test_unknown(look, store, path):
    """What is not there is said not to be there."""
    await store.queue("q").enqueue(1)
    await store.stream("s").publish(1)
    assert 404 == (await look(path)).status_code


async def test_a_job_of_another_queue(look, store):
    """A job is found in its own queue only."""
    await store.queue("mine").enqueue("secret")
    assert 404 == (await look("/job", queue="yours", id=1)).status_code


async def test_huge_payload(look, store):
    """Of a huge payload its beginning is shown; all of it can be saved, and is never shown."""
    await store.queue("q").enqueue("x" * 3_000_000)
    page = await look("/job", queue="q", id=1)
    assert len(page.text) < 100_000
    assert "3,000,002 bytes; this is only its beginning" in page.text
    assert len((await look("/queue", queue="q")).text) < 10_000
    (link,) = [link for link in links(page.text) if link.startswith("job-payload")]
    saved = await look("/" + link)
    assert b'"' + b"x" * 3_000_000 + b'"' == saved.content
    assert ("application/octet-stream", 'attachment; filename="job-1-payload"') == (
        saved.headers["content-type"],
        saved.headers["content-disposition"],
    )
    assert "default-src 'none'; sandbox" == saved.headers["content-security-policy"]


async def test_stream(look, store, clock):
    """A stream's page has its bounds, its consumers with their lag, and the latest events."""
    stream = store.stream("s")
    await stream.publish_with_key("order-1", {"n": 1}, {"tenant": "north"})
    await clock.advance(60)
    await stream.publish_many(range(99))
    await stream.save_offset("billing", 90)
    page = (await look("/stream", stream="s")).text
    shown = rows(page)
    assert ["billing 90 10", "100 now 98"] == shown[:2]
    assert (51, "51") == (len(shown), shown[-1].split()[0])
    first = rows((await look("/stream", stream="s", after=0)).text)
    assert '1 1 min ago order-1 {"n":1}' == first[1]
    event = html.unescape((await look("/event", stream="s", offset=1)).text)
    assert all(part in event for part in ("order-1", "<dt>tenant</dt><dd>north</dd>", '"n": 1'))
    saved = await look("/event-payload", stream="s", offset=1)
    assert b'{"n":1}' == saved.content


@pytest.mark.parametrize(("others", "burst"), [(0, 1), (30, 1), (1, 300), (400, 7)])
async def test_latest_events(look, store, others, burst):
    """The latest events are found among those of other streams, however they lie."""
    mine, theirs = store.stream("mine"), store.stream("theirs")
    offsets = []
    while len(offsets) < 300:
        offsets += await mine.publish_many(range(burst))
        await theirs.publish_many(range(others))
    shown = [int(row.split()[0]) for row in rows((await look("/stream", stream="mine")).text)]
    assert offsets[-1] == shown[0]
    assert offsets[: -len(shown) - 1 : -1] == shown
    assert len(shown) >= 25


async def test_database_down(look, engine):
    """A database that refuses is said to; it is no defect, and no traceback is shown."""
    engine.faults["names"].append(DatabaseError("the server is gone"))
    answer = await look("/")
    assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
    assert "the server is gone" in answer.text
    assert 200 == (await look("/")).status_code


async def test_many_readers(client, store, engine):
    """However many look at once, the database counts once; who comes later sees later numbers."""
    await store.queue("q").enqueue(1)
    browser = await client()
    for path, primitive in [
        ("/", "names"),
        ("/queue?queue=q", "stats"),
        ("/stream?stream=s", "bounds"),
    ]:
        gate = engine.hold("before", primitive)
        before = engine.calls.count(primitive)
        looks = [asyncio.create_task(browser.get(path)) for _ in range(5)]
        await gate.reached.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        assert 1 == engine.calls.count(primitive) - before
        del engine.gates["before", primitive]
        gate.open()
        assert {200} == {answer.status_code for answer in await asyncio.gather(*looks)}
    await store.queue("q").enqueue(1)
    assert rows((await browser.get("/")).text)[0].startswith("q 2 ")


async def test_silent_database(client, engine, monkeypatch, store):
    """A database that does not answer is not waited for for ever, and asked once by all."""
    monkeypatch.setattr("alkstore_core.web.app.ANSWER_S", 0.01)
    gate = engine.hold("before", "names")
    browser = await client()
    for _ in range(3):
        answer = await browser.get("/")
        assert (503, True) == (answer.status_code, "has not answered" in answer.text)
    assert 1 == engine.calls.count("names")
    gate.open()
    await until(lambda: engine.calls.count("names") > 1)


async def test_closed_store(client, store):
    """A store that is closed is no defect of the page either."""
    browser = await client()
    await store.close()
    assert 503 == (await browser.get("/")).status_code


async def test_defect(client, engine):
    """A defect of ours says so, and nothing of itself."""
    engine.faults["names"].append(ZeroDivisionError("secret detail"))
    answer = await (await client()).get("/")
    assert 500 == answer.status_code
    assert "secret" not in answer.text
    assert "no-store" == answer.headers["cache-control"]


async def test_read_only(client, dies):
    """Unless it is switched on there is nothing to do, neither on the page nor behind it."""
    await dies("q")
    browser = await client()
    for path in ("/queue?queue=q&state=dead", "/job?queue=q&id=1"):
        page = (await browser.get(path)).text
        assert "edrive" not in page
        assert "read-only" in page
    for path in ("/redrive?queue=q", "/purge?queue=q"):
        assert 404 == (await browser.post(path, data={"one": "1"})).status_code


@pytest.mark.parametrize("prefix", ["/alkstore", "/tools/ä b"])
async def test_mounted(store, make_app, dies, prefix):
    """Mounted into another application all links, forms and cookies stay below its path."""
    await dies("q", 60)
    outer = Starlette(routes=[Mount(prefix, make_app(actions=True))])
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url="http://page.test") as browser:
        answer = await browser.get(prefix, follow_redirects=True)
        assert 401 == answer.status_code
        login = answer.url.join("login")
        answer = await browser.post(login, data={"token": TOKEN}, follow_redirects=True)
        assert (200, httpx.URL(f"http://page.test{prefix}/")) == (answer.status_code, answer.url)
        (cookie,) = browser.cookies.jar
        assert httpx.URL(f"http://x{prefix}").raw_path.decode() == cookie.path
        seen, left = {str(answer.url)}, [answer]
        while left:
            page = left.pop()
            found = [*links(page.text), *re.findall(r'(?:href|src)="([^"]+\?v=\w+)"', page.text)]
            for target in {str(page.url.join(link)).partition("#")[0] for link in found} - seen:
                seen.add(target)
                assert target.startswith(str(httpx.URL(f"http://page.test{prefix}/")))
                answer = await browser.get(target)
                assert 200 == answer.status_code
                if answer.headers["content-type"].startswith("text/html"):
                    left.append(answer)
        assert len(seen) > 10
