// Keeps a page as it is in the store. What the reader does with it stays as it was: the scroll
// position, the focus, selected text, ticked boxes. Without this script the page is still whole.
"use strict";

(() => {
  const box = document.getElementById("live");
  if (!box) return;
  const period = Number(box.dataset.refresh) * 1000;
  const says = document.getElementById("live-state");
  const toggle = document.getElementById("live-toggle");
  let paused = sessionStorage.getItem("alkstore-paused") === "yes";
  let failures = 0;
  let timer = 0;
  let asking = null;

  // Make `old` what `fresh` is, with as few changes as it takes.
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(document.importNode(fresh, true));
    } else if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else if (old.nodeType === Node.ELEMENT_NODE) {
      for (const { name } of [...old.attributes]) {
        if (!fresh.hasAttribute(name)) old.removeAttribute(name);
      }
      for (const { name, value } of fresh.attributes) {
        if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      }
      morphChildren(old, fresh);
    }
  }

  // Rows with a key stay the rows they were, wherever they move to.
  function morphChildren(old, fresh) {
    const key = (node) => (node.dataset ? node.dataset.key : undefined);
    const kept = new Map([...old.children].filter(key).map((node) => [key(node), node]));
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const known = key(next);
      const match = known ? kept.get(known) : at && !key(at) ? at : undefined;
      if (!match) {
        old.insertBefore(document.importNode(next, true), at);
      } else {
        if (match === at) at = at.nextSibling;
        else old.insertBefore(match, at);
        morph(match, next);
      }
    }
    while (at) {
      const last = at;
      at = at.nextSibling;
      last.remove();
    }
  }

  const keys = (element) => [...element.children].map((row) => row.dataset.key).join("\n");

  function show(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(old.id);
      if (!next) continue;
      // Rows with buttons do not move under the pointer: it is only told that there are others.
      if (old.dataset.live !== "told") morph(old, next);
      else document.getElementById(`${old.id}-changed`).hidden = keys(old) === keys(next);
    }
  }

  function say(text, trouble) {
    if (says.textContent !== text) says.textContent = text;
    box.classList.toggle("trouble", Boolean(trouble));
  }

  function plan(after) {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(refresh, after);
  }

  function end(text) {
    say(text, true);
    toggle.hidden = true;
    paused = true;
  }

  async function refresh() {
    if (asking) return;
    asking = new AbortController();
    const began = performance.now();
    const overdue = setTimeout(() => asking.abort(), 30000);
    try {
      const answer = await fetch(location.href, { signal: asking.signal, cache: "no-store" });
      const text = await answer.text();
      if (paused || document.hidden) return;
      if (answer.status === 401) return end("Logged out: load the page again");
      if (answer.status === 404) return end("Not there any more");
      if (!answer.ok) throw new Error(answer.status);
      show(text);
      failures = 0;
      say("Live");
    } catch (error) {
      if (paused || document.hidden) return;
      failures += 1;
      say("No answer; trying again", true);
    } finally {
      clearTimeout(overdue);
      asking = null;
      // What takes the database long is asked for seldom, so that watching costs it little; and
      // ever more seldom what gets no answer.
      const pause = Math.max(period, 10 * (performance.now() - began)) * 2 ** failures;
      plan(Math.min(pause, Math.max(period, 60000)));
    }
  }

  function turn() {
    toggle.textContent = paused ? "Resume" : "Pause";
    if (paused) say("Paused");
    else say("Live");
    if (paused || document.hidden) clearTimeout(timer);
  }

  toggle.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("alkstore-paused", paused ? "yes" : "no");
    turn();
    plan(0);
  });
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) plan(0);
  });

  // What was done is said once: loading the page again does not do it again.
  const here = new URL(location.href);
  if (here.searchParams.has("done")) {
    here.searchParams.delete("done");
    history.replaceState(null, "", here);
  }

  box.hidden = false;
  turn();
  plan(period);
})();
