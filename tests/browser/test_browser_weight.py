"""What the first visit weighs, and how soon a slow phone plays the recorded run."""

from tests.conftest import SLOW
from tests.stress import drawing


def test_the_first_load_is_light(browser, url):
    context = browser.new_context(bypass_csp=True, viewport=drawing.SCREEN)
    page = context.new_page()
    page.set_default_timeout(SLOW)
    found = drawing.opened(page, context.new_cdp_session(page), url)
    context.close()
    assert 0 < found["requests"] <= 30
    assert 50 < found["kilobytes_sent"] <= 280


def test_a_slow_phone_plays_soon(browser, url):
    """Other tests run meanwhile. On a quiet machine it takes 1.4 s (`python -m tests.stress.drawing`)."""
    found = drawing.phone(browser, url)
    assert 300 < found["first_token_ms"] < 15_000, "two answers of 150 ms are necessary"
    assert found["requests"] <= 30
