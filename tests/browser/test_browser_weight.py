"""What the first visit weighs, and how soon a slow phone plays the recorded run."""

from tests.stress import drawing


def test_the_first_load_is_light_and_a_slow_phone_plays_soon(browser, url):
    """Other tests run meanwhile. On a quiet machine it takes 1.4 s (`python -m tests.stress.drawing`)."""
    found = drawing.phone(browser, url)
    assert 0 < found["requests"] <= 30
    assert 50 < found["kilobytes_sent"] <= 280
    assert 300 < found["first_token_ms"] < 15_000, "two answers that come 150 ms later are necessary"
