"""A recorded run of the pair that writes code: the page names the pair, and shows code as code."""

import re

import pytest
from playwright.sync_api import expect

from tests.conftest import go

CODER = "Qwen2.5-Coder 1.5B checks, 0.5B guesses · recorded on two CPU cores"


@pytest.fixture
def code(blank, url):
    """The recorded run on a server with the story pair."""
    return go(blank, f"{url}/?trace=code&baseline=0")


def test_the_pair_is_named_and_another_one_that_generate_runs(code):
    expect(code.locator("#shown_pair .shown")).to_have_text(CODER)
    runs = "Generate uses: Story models 15M checks, 0.7M guesses"
    expect(code.locator("#shown_pair .next")).to_have_text(runs)
    expect(code.locator("#generate")).to_have_accessible_description(re.compile("^Generate uses"))
    code.locator("#replay .choose").select_option("story")
    expect(code.locator("#shown_pair .shown")).to_have_text(re.compile("^Story models 15M checks, 0.7M"))
    expect(code.locator("#shown_pair .next")).to_have_text("")


def test_code_keeps_its_lines_and_indentation_in_one_width_of_letters(code):
    text = code.evaluate(
        """() => [...document.querySelectorAll("#text .tokens .token.code:not(.rejected)")]
          .map((token) => token.textContent).join("")"""
    )
    program = re.fullmatch(r"```python\n(.*?)```\s*", text, re.DOTALL)
    names = {}
    exec(program[1], names)
    primes = [number for number in range(30) if names["is_prime"](number)]
    assert primes == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    styles = code.evaluate(
        """() => ["#text .tokens .code", "#prompt"].map((part) =>
          getComputedStyle(document.querySelector(part)).fontFamily)"""
    )
    assert "monospace" in styles[0]
    assert "monospace" not in styles[1]
    left = "element => element.getBoundingClientRect().left"
    returned = code.locator("#text .token.code > .ink", has_text="return").first
    assert returned.evaluate(left) > code.locator("#text .tokens").evaluate(left) + 30
    assert code.locator("#text .token.code.accepted > .ink").count() > 50
