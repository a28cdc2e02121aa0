"""The page without the tests' changes to the browser: under its own content security policy, what the first
visit weighs, and a short run of the command that measures the cost of watching."""

import json
import time

from tests.conftest import OPENED, SLOW, host_of
from tests.stress import drawing, watched


def until(page, script):
    """Wait until this function of a script returns true. The debugger calls it, which the policy does not
    restrict."""
    end = time.monotonic() + 4 * SLOW / 1000
    while not page.evaluate(script):
        assert time.monotonic() < end, script
        page.wait_for_timeout(100)


def test_every_tab_and_a_run_keep_to_the_policy(someone, url):
    page, errors, hosts = someone("about:blank", is_new=True, bypass_csp=False), [], set()
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("request", lambda request: hosts.add(host_of(request.url)))
    page.goto(f"{url}/?length=8&baseline=0")
    until(page, "() => document.body.dataset.phase === 'idle'")
    for tab, content in OPENED.items():
        page.evaluate(f"document.getElementById('to-{tab}').click()")
        until(page, f"() => document.querySelector({json.dumps(content)}) !== null")
    page.wait_for_timeout(1000)
    page.evaluate("document.getElementById('to-live').click()")
    page.locator("#generate").click()
    until(page, "() => document.body.dataset.phase === 'done'")
    policy = page.evaluate("async () => (await fetch('./')).headers.get('content-security-policy')")
    assert "unsafe-eval" not in policy
    assert errors == []
    assert hosts <= {"127.0.0.1", ""}


def test_the_first_load_is_light_and_a_slow_phone_plays_soon(browser, url):
    """Other tests run meanwhile. On a quiet machine it takes 1.4 s (`python -m tests.stress.drawing`)."""
    figures = drawing.phone(browser, url)
    assert 0 < figures["requests"] <= 30
    assert 50 < figures["kilobytes_sent"] <= 280
    assert 300 < figures["first_token_ms"] < 15_000, "two answers that come 150 ms later are necessary"


def test_a_watched_run_is_timed_beside_the_same_run_alone(page, url, monkeypatch):
    monkeypatch.setattr(watched, "SETTLED", 0)  # leaves out waiting times that only a measurement needs
    figures = watched.compare(page, url, "stories", repeats=1, length=24)
    for method in ("ersd", "gsd"):
        assert figures[method]["alone_tokens_per_second"] > 0
        assert figures[method]["here"]["tokens_per_second"] > 0
        assert figures[method]["elsewhere"]["tokens_per_second"] > 0
