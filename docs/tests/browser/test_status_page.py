"""The status page as people use it, in a real browser."""

from __future__ import annotations

import chromium
import pytest
from chromium import GIVEN, REFRESH_S, TOKEN
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from alkstore_core import EnqueueOpts

NASTY = "</script><img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"

CONTRAST = """
const over = (top, under) => under.map((v, i) => top[i] * top[3] + v * (1 - top[3]));
const rgba = (css) => [...css.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = (c) => 0.2126 * linear(c[0] / 255) + 0.7152 * linear(c[1] / 255)
  + 0.0722 * linear(c[2] / 255);
const behind = (e) => e === null ? [255, 255, 255]
  : over(rgba(getComputedStyle(e).backgroundColor), behind(e.parentElement));
const shown = (e) => e.getClientRects().length
  && [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
const ratio = (e) => {
  const under = light(behind(e));
  const text = light(over(rgba(getComputedStyle(e).color), behind(e)));
  return (Math.max(text, under) + 0.05) / (Math.min(text, under) + 0.05);
};
return [...document.querySelectorAll("body *")].filter(shown)
  .map((e) => [ratio(e), e.outerHTML.slice(0, 120)]).sort((x, y) => x[0] - y[0])[0];
"""


def wait(browser, ready):
    """Wait until something is so; the browser is real, and so is its time."""
    return WebDriverWait(browser, 20, poll_frequency=0.02).until(ready)


def text(browser, selector):
    """The text of an element as it is shown."""
    return browser.find_element(By.CSS_SELECTOR, selector).text


def press(browser, selector):
    """Press a button or a link, and wait for the page it leads to."""
    page = browser.find_element(By.TAG_NAME, "html")
    browser.find_element(By.CSS_SELECTOR, selector).click()
    wait(browser, lambda _: gone(page))


def gone(element):
    """Whether an element's page is no longer shown."""
    try:
        element.is_enabled()
    except Exception:  # noqa: BLE001 - each driver has its own words for it.
        return True
    return False


async def bury(store, name="mail", count=3, error="boom"):
    """Put dead jobs into a queue."""
    queue = store.queue(name)
    await queue.enqueue_many([{"n": n} for n in range(count)])
    for handle in await queue.claim_batch("worker", count):
        await handle.fail(error)


async def fill(store):
    """Put something into every table of the page."""
    await bury(store)
    await store.queue("mail").enqueue_many(range(60))
    await store.queue("mail").claim_one("worker-1")
    await store.queue("late").enqueue(1, EnqueueOpts(delay=999))
    await store.queue("a-name-without-any-space-" * 8).enqueue({"text": "x" * 500})
    await store.outbox("hooks").enqueue(1)
    await store.stream("orders").publish_many([{"text": "y" * 500}] * 5)
    await store.stream("orders").save_offset("billing", 2)
    await store.try_lock("import", "host-1", 600)
    await store.schedule("digest", "@every 15m", "mail", None)


PAGES = (
    "",
    "queue?queue=mail",
    "queue?queue=mail&state=dead",
    "job?queue=mail&id=1",
    "stream?stream=orders",
    "event?stream=orders&offset=1",
    "job?queue=mail&id=999",
)


def test_log_in_and_out(served, visit):
    """The token opens the page that was asked for; scripts see no cookie; leaving closes it."""
    served.do(fill(served.store))
    browser = visit("queue?queue=mail")
    wait(browser, lambda b: text(b, "h1") == "Queue mail")
    assert served.url + "queue?queue=mail" == browser.current_url
    assert "" == browser.execute_script("return document.cookie")
    press(browser, "form[action=logout] button")
    assert "Log in" == text(browser, "h1")
    assert [] == browser.get_cookies()
    browser.find_element(By.ID, "token").send_keys("not-this-token-of-ours" + Keys.ENTER)
    wait(browser, lambda b: b.find_elements(By.ID, "wrong"))


def test_no_complaints(served, visit):
    """No page needs anything that its own policy forbids, and none fails in its script."""
    served.do(fill(served.store))
    browser = visit()
    browser.get_log("browser")
    for page in PAGES[:-1]:
        browser.get(served.url + page)
        wait(browser, lambda b: text(b, "#live-state") == "Live")
    assert [] == browser.get_log("browser")


def test_nothing_stored_runs(served, visit):
    """What is stored is shown and never run; the policy would not let it either."""

    async def work(store):
        await bury(store, NASTY, 1, NASTY)
        await store.queue(NASTY).enqueue({NASTY: NASTY}, EnqueueOpts(headers={NASTY: NASTY}))
        await store.stream(NASTY).publish(NASTY)
        await store.try_lock(NASTY, NASTY, 60)

    served.do(work(served.store))
    browser = visit()
    assert NASTY == text(browser, "#queues a")
    press(browser, "#queues a")
    assert f"Queue {NASTY}" == text(browser, "h1")
    press(browser, "#jobs a")
    assert NASTY in text(browser, "pre")
    put_in = "document.body.insertAdjacentHTML('beforeend', arguments[0]);"
    put_in += "const s = document.createElement('script'); s.text = 'window.hacked = 1';"
    browser.execute_script(put_in + "document.body.append(s)", NASTY)
    assert browser.execute_script("return window.hacked === undefined")


def test_live(served, visit):
    """The page follows the store, and what one does with it meanwhile stays as it is."""
    served.do(fill(served.store))
    browser = visit()
    browser.set_window_size(1280, 400)
    browser.execute_script("window.mine = 1; scrollTo(0, 150)")
    link = browser.find_element(By.CSS_SELECTOR, "#queues tr[data-key='queue:mail'] a")
    browser.execute_script("arguments[0].focus({preventScroll: true})", link)
    served.do(served.store.queue("mail").enqueue_many(range(1000)))
    served.do(served.store.queue("another").enqueue(1))
    ready = "#queues tr[data-key='queue:mail'] td"
    wait(browser, lambda b: text(b, ready) == "1,059")
    wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, "tr[data-key='queue:another']"))
    assert [1, 150] == browser.execute_script("return [window.mine, scrollY]")
    assert link == browser.switch_to.active_element


def test_pause(served, visit):
    """A paused page stays as it is, also when it is loaded again, until one goes on."""
    browser = visit()
    browser.find_element(By.ID, "live-toggle").click()
    assert ("Paused", "Resume") == (text(browser, "#live-state"), text(browser, "#live-toggle"))
    browser.refresh()
    assert "Paused" == text(browser, "#live-state")
    wait_in_page(browser)  # what was on its way when it was paused
    before = served.requests
    served.do(served.store.queue("q").enqueue(1))
    wait_in_page(browser)
    assert before == served.requests
    assert [] == browser.find_elements(By.CSS_SELECTOR, "tr[data-key]")
    browser.find_element(By.ID, "live-toggle").click()
    wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, "tr[data-key='queue:q']"))


def test_hidden_tab(served, visit):
    """A page that nobody sees asks nothing; seen again it is up to date at once."""
    browser = visit()
    hide = """Object.defineProperty(document, "hidden", {value: HIDDEN, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"))"""
    hidden = {"source": hide.replace("HIDDEN", "true")}
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", hidden)
    for begin in (lambda: browser.execute_script(hidden["source"]), browser.refresh):
        begin()
        wait_in_page(browser)  # what was on its way
        before = served.requests
        wait_in_page(browser)
        assert before == served.requests
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    served.do(served.store.queue("q").enqueue(1))
    browser.execute_script(hide.replace("HIDDEN", "false"))
    wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, "tr[data-key='queue:q']"))


def wait_in_page(browser):
    """Let the page do whatever it does in five times its refresh."""
    browser.execute_async_script("setTimeout(arguments[1], arguments[0])", 5000 * REFRESH_S)


def test_database_gone(served, visit):
    """A page that gets no answer says so, keeps what it had, and comes back by itself."""
    served.do(served.store.queue("q").enqueue(1))
    browser = visit()
    wait(browser, lambda b: text(b, "#live-state") == "Live")
    closed, served.store._runtime._loop = served.store._runtime._loop, None
    wait(browser, lambda b: text(b, "#live-state") == "No answer; trying again")
    assert "q" == text(browser, "#queues a")
    served.store._runtime._loop = closed
    wait(browser, lambda b: text(b, "#live-state") == "Live")


def test_session_over(served, visit):
    """A page whose session has ended says so, and asks no more."""
    browser = visit()
    browser.delete_all_cookies()
    wait(browser, lambda b: text(b, "#live-state") == "Logged out: load the page again")
    assert not browser.find_element(By.ID, "live-toggle").is_displayed()


def test_job_is_done(served, visit):
    """The page of a job that is done meanwhile says that it is gone."""

    async def work(store):
        await store.queue("q").enqueue(1)
        return await store.queue("q").claim_one("w")

    handle = served.do(work(served.store))
    browser = visit("job?queue=q&id=1")
    wait(browser, lambda b: text(b, "#fields dd") == "processing")
    served.do(handle.ack())
    wait(browser, lambda b: text(b, "#live-state") == "Not there any more")


def test_redrive_selected(served, visit):
    """Rows that one is about to act on do not move; what was done is told, and told once."""
    served.do(bury(served.store))
    browser = visit("queue?queue=mail&state=dead")
    browser.find_element(By.CSS_SELECTOR, "input[name=id][value='2']").click()
    assert not browser.find_element(By.ID, "jobs-changed").is_displayed()
    served.do(bury(served.store, count=2))
    wait(browser, lambda b: b.find_element(By.ID, "jobs-changed").is_displayed())
    assert 3 == len(browser.find_elements(By.CSS_SELECTOR, "#jobs tr"))
    assert browser.find_element(By.CSS_SELECTOR, "input[value='2']").is_selected()
    press(browser, "button[name=selected]")
    assert "Job 2 was redriven: it is ready, as job 6." == text(browser, "#done")
    assert "done=" not in browser.current_url
    assert [1, 3, 4, 5] == [job.id for job in served.do(served.store.queue("mail").dead_jobs())]
    browser.refresh()
    assert [] == browser.find_elements(By.ID, "done")


def test_delete(served, visit):
    """Dead jobs are deleted when one has said which, and that one is sure."""
    served.do(bury(served.store))
    browser = visit("queue?queue=mail&state=dead")
    browser.find_element(By.TAG_NAME, "summary").click()
    browser.find_element(By.CSS_SELECTOR, "option[value=all]").click()
    delete = browser.find_element(By.CSS_SELECTOR, "form[action^=purge] button")
    delete.click()
    assert browser.execute_script(
        "return document.querySelector('[name=sure]').matches(':invalid')"
    )
    browser.find_element(By.NAME, "sure").click()
    press(browser, "form[action^=purge] button")
    assert "3 dead jobs were deleted." == text(browser, "#done")


def test_without_scripts(served, visit):
    """Without scripts all of it works, but for the refresh."""
    served.do(bury(served.store))
    browser = visit()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(served.url)
    assert not browser.find_element(By.ID, "live").is_displayed()
    browser.get(served.url + "queue?queue=mail&state=dead")
    press(browser, "button[name=one][value='3']")
    assert "Job 3 was redriven: it is ready, as job 4." == text(browser, "#done")


USABLE = """
window.left = new Set([...document.querySelectorAll(
  "a[href], button, input:not([type=hidden]), summary, select, [tabindex='0']")]
  .filter((e) => e.checkVisibility()));
return window.left.size"""

STANDING = """
const e = document.activeElement;
window.left.delete(e);
return getComputedStyle(e).outlineStyle"""


def tab(browser):
    """Press the tabulator."""
    for kind in ("keyDown", "keyUp"):
        key = {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
        browser.execute_cdp_cmd("Input.dispatchKeyEvent", key)


def test_keyboard(served, visit):
    """The keyboard reaches everything, what it stands on is seen, and it may skip the heading."""
    served.do(bury(served.store))
    browser = visit("queue?queue=mail&state=dead")
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert "Skip to the content" == browser.switch_to.active_element.text
    usable = browser.execute_script(USABLE)
    for _ in range(usable):
        assert "none" != browser.execute_script(STANDING)
        tab(browser)
    assert 0 == browser.execute_script("return window.left.size")
    browser.get(served.url)
    tab(browser)
    wait(browser, lambda b: b.switch_to.active_element.text == "Skip to the content")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait(browser, lambda b: b.switch_to.active_element.get_attribute("id") == "main")


def test_widths(served, visit):
    """No page is wider than its window: what is wide is broken, or scrolls by itself."""
    served.do(fill(served.store))
    browser = visit()
    beyond = "const e = document.documentElement; return e.scrollWidth - e.clientWidth"
    for page in PAGES:
        browser.get(served.url + page)
        for width in (320, 390, 660, 1280):
            metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 660}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            assert (page, width, 0) == (page, width, browser.execute_script(beyond))


def test_tiles(served, visit):
    """A time of two parts stays on one line, and within its tile."""
    served.do(fill(served.store))
    browser = visit("queue?queue=mail")
    for width in (320, 390, 660, 700, 800, 1000, 1100, 1280):
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 660}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        found = browser.execute_script("""
            const time = [...document.querySelectorAll(".tile dd")].at(-1);
            const page = document.documentElement;
            time.textContent = "23 h 59 min";
            return [
              Math.round(time.clientHeight / parseFloat(getComputedStyle(time).lineHeight)),
              Math.max(time.scrollWidth - time.clientWidth, 0),
              page.scrollWidth - page.clientWidth,
            ]""")
        assert (width, [1, 0, 0]) == (width, found)


def test_contrast(served, visit):
    """All text can be read, in light and in dark: 4.5 to 1, as WCAG's level AA has it."""
    served.do(fill(served.store))
    browser = visit()
    background = "return getComputedStyle(document.body).backgroundColor"
    for page in PAGES:
        browser.get(served.url + page)
        for scheme, sheet in (("light", "rgb(247, 248, 248)"), ("dark", "rgb(18, 23, 26)")):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            assert sheet == browser.execute_script(background)
            ratio, element = browser.execute_script(CONTRAST)
            assert ratio >= 4.5, (page, scheme, element)


def test_structure(served, visit):
    """Tables have headers, fields have labels, pages a title and one first heading."""
    served.do(fill(served.store))
    browser = visit()
    for page in PAGES:
        browser.get(served.url + page)
        found = browser.execute_script("""
            const all = (q) => [...document.querySelectorAll(q)];
            const ids = all("[id]").map((e) => e.id);
            console.log(1); return [
              all("th:not([scope])").length,
              all("tbody tr[data-key]").filter((r) => !r.querySelector("th")).length,
              all("input:not([type=hidden]), select")
                .filter((e) => !e.labels.length && !e.ariaLabel).length,
              all("button").filter((e) => !e.textContent.trim()).length,
              ids.length - new Set(ids).size,
              all("h1").length, all("main").length, document.documentElement.lang,
            ]""")
        assert (page, [0, 0, 0, 0, 0, 1, 1, "en"]) == (page, found)
        assert browser.title.endswith(" · alkstore")


def test_missing_browser_is_no_silent_skip(monkeypatch):
    """Where Chromium is not installed, and nobody said to do without, these tests fail."""
    monkeypatch.setenv(GIVEN, "")
    monkeypatch.setattr("chromium.shutil.which", lambda *_, **__: None)
    with pytest.raises(LookupError, match=f"{GIVEN}=off"):
        chromium.program()


def test_token_is_typed_unseen(served, browser):
    """The token is typed into a field that hides it, and stands in no address."""
    browser.get(served.url)
    field = browser.switch_to.active_element
    assert ("token", "password") == (field.get_attribute("name"), field.get_attribute("type"))
    field.send_keys(TOKEN + Keys.ENTER)
    wait(browser, lambda b: text(b, "h1") == "Overview")
    assert TOKEN not in browser.page_source + browser.current_url
