"""The page under its own content security policy: everything works within the policy."""

import json
import time

from tests.conftest import DESKTOP, OPENED, SLOW, host_of, viewport


def until(page, script):
    """Wait until this function of a script returns true. The debugger calls it, which the policy does not
    restrict."""
    end = time.monotonic() + 4 * SLOW / 1000
    while not page.evaluate(script):
        assert time.monotonic() < end, script
        page.wait_for_timeout(100)


def test_every_tab_and_a_run_keep_to_the_policy(browser, url):
    context = browser.new_context(viewport=viewport(DESKTOP))
    page = context.new_page()
    told, hosts = [], set()
    page.on("console", lambda message: message.type == "error" and told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
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
    assert told == []
    assert hosts <= {"127.0.0.1", ""}
    context.close()
