"""The embedded run in a real frame of another page. `tests/server/test_guard.py` checks that no other page of
this server may be shown in one."""

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import expect

from tests.conftest import frame_code, generate
from tests.helpers.servers import running


class _Post(BaseHTTPRequestHandler):
    """The HTML of an address as a page of another server."""

    def do_GET(self):
        body = unquote(self.path.partition("?")[2]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Write no log lines."""


@pytest.fixture(scope="module")
def elsewhere():
    """The address of another origin, which differs only in its port."""
    with running(ThreadingHTTPServer(("127.0.0.1", 0), _Post)) as address:
        yield f"{address}/post"


@pytest.fixture
def framed(someone, elsewhere):
    """Show HTML on a page of another origin. Its scripts must not fail."""
    return lambda html: someone(f"{elsewhere}?{quote(html)}", (900, 700))


def test_the_copied_frame_plays_its_recorded_run_on_another_page(visit, url, framed):
    page = visit("?trace=wide-tree")
    code = frame_code(page)
    assert code.startswith(f'<iframe src="{url}/embed?trace=wide-tree"')
    inside = framed(code).frame_locator("iframe")
    expect(inside.locator("#stepper .play .word")).to_have_text("pause")
    page.keyboard.press("End")
    text = page.locator("#text .tokens .token:not(.rejected)").all_text_contents()
    expect(inside.locator("#text .tokens .token:not(.rejected)")).to_have_text(text, timeout=60_000)
    expect(inside.get_by_role("link", name="Open the whole page")).to_have_attribute(
        "href", f"{url}/?trace=wide-tree"
    )


@pytest.mark.parametrize(
    ("settings", "held", "method"),
    [("", "topology=auto", "ERSD"), ("&method=gsd&topology=sequence&k=3", "tree=1.1.1", "GSD")],
)
def test_the_frame_of_a_run_decodes_its_text_again_after_a_press(visit, framed, settings, held, method):
    page = visit(f"?baseline=0&length=12{settings}")
    generate(page)
    code = frame_code(page)
    assert held in code
    text = page.locator("#text .tokens .token:not(.rejected)").all_text_contents()
    inside = framed(code).frame_locator("iframe")
    assert inside.locator("#text .tokens .token").count() == 0
    inside.get_by_role("button", name="Decode this run").click()
    expect(inside.locator("#text .tokens .token:not(.rejected)")).to_have_text(text)
    expect(inside.locator(".about")).to_contain_text(method)


def test_a_run_that_is_not_there_is_named(framed, url):
    inside = framed(f'<iframe src="{url}/embed?trace=nothing"></iframe>').frame_locator("iframe")
    expect(inside.locator(".about")).to_have_text(re.compile("there is nothing at this address|answered 404"))
