"""The page below a path prefix, behind nginx as `docs/serving.md` sets it up; a class there in the frame of a
Space."""

import os

import pytest
from playwright.sync_api import expect

from tests.browser.test_browser_classroom import closed, code_of, onward, predict
from tests.conftest import CHROMIUM, DESKTOP, FLAGS, PHONE, SLOW, generate, go, state, to, viewport
from tests.helpers.nginx import NGINX, nginx
from tests.stress.visitors import serving

PREFIX = "/talks/decoding"
SPACE = "https://huggingface.co/spaces/someone/decoding"
ALLOWED = "forms modals popups popups-to-escape-sandbox same-origin scripts"
SANDBOX = " ".join(f"allow-{each}" for each in ALLOWED.split())
FRAME = """<!doctype html><title>Space</title>
  <iframe src="{}/?tab=lessons" style="width: 100vw; height: 100vh" sandbox="{}"></iframe>"""
# Features of Chromium that forbid public pages to show frames of this machine.
OF_THIS_MACHINE = "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessForNavigations"


@pytest.fixture(scope="module")
def below():
    """The address behind nginx of a server that knows its prefix and runs as on a Space."""
    if NGINX is None and "CI" not in os.environ:
        pytest.skip("nginx is missing: sh tests/install_proxies.sh")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GRADIO_ROOT_PATH", PREFIX)
        # otherwise no other page may show it in a frame
        environment.setenv("SPACE_ID", SPACE.partition("/spaces/")[2])
        with serving("--proxy", "127.0.0.1") as (address, _), nginx(address, PREFIX) as outside:
            yield outside


@pytest.fixture
def chromium(browser):
    """A browser whose public pages may show frames of this machine."""
    with browser.browser_type.launch(executable_path=CHROMIUM, args=[*FLAGS, OF_THIS_MACHINE]) as other:
        yield other


def visitor(chromium, size):
    context = chromium.new_context(bypass_csp=True, viewport=viewport(size))
    context.set_default_timeout(SLOW)
    return context.new_page()


def test_below_a_path_the_page_asks_only_there_and_decodes(someone, below):
    page, urls = someone("about:blank"), []
    page.on("request", lambda request: urls.append(request.url))
    go(page, f"{below}/?length=8&baseline=0&topology=simple")
    generate(page)
    assert state(page)["rounds"]
    to(page, "Understand", "Race lab")
    expect(page.locator("#race_lab .verdict").first).to_contain_text("arrives first")
    urls = [address for address in urls if not address.startswith(("data:", "blob:", "about:"))]
    assert len(urls) > 5
    assert [address for address in urls if not address.startswith(f"{below}/")] == []


def test_a_class_meets_behind_a_proxy_and_in_the_frame_of_a_space(chromium, below):
    page, student = visitor(chromium, DESKTOP), visitor(chromium, PHONE)
    page.route("https://huggingface.co/**", lambda route: route.fulfill(body=FRAME.format(below, SANDBOX)))
    page.goto(SPACE)
    lecturer = page.frame_locator("iframe")
    lecturer.locator("summary", has_text="Teach").click()
    lecturer.get_by_role("button", name="Open a room").click()
    expect(lecturer.locator(".class-join .qr svg")).to_be_visible()
    expect(lecturer.locator(".class-join .link")).to_have_text(f"{below.removeprefix('http://')}/class")
    student.goto(f"{below}/class?room={code_of(lecturer)}")
    expect(student.locator("h2")).to_have_text("You are in")
    closed(lecturer)
    onward(lecturer)
    predict(student)
    expect(lecturer.locator(".class .answered")).to_have_text("1 of 1 have answered")
    lecturer.get_by_role("button", name="Show the answers").click()
    for side in (lecturer, student):
        expect(side.locator(".drawn .sum")).to_contain_text("0 of 1 answer right")
    student.reload()
    expect(student.locator(".drawn .sum")).to_be_visible()
    page.reload()
    expect(lecturer.locator("#lesson .place")).to_have_text("Lesson 3, step 2 of 5")
