"""The statistics say why `auto` took its tree: three curves, and a table with a mark at the fastest one."""

import pytest
from playwright.sync_api import expect

from tests.conftest import generate, ready

pytestmark = pytest.mark.browser


def test_the_choice_of_auto_is_explained(blank, url):
    blank.goto(f"{url}/?baseline=0&topology=auto&length=24&seed=1")
    ready(blank)
    generate(blank)
    blank.locator("#statistics .all > summary").click()
    choice = blank.locator("#statistics .choice")
    expect(choice.locator("summary")).to_contain_text("why this tree?")
    choice.locator("summary").click()
    rows = choice.locator("tbody tr").all_inner_texts()
    rates = [float(row.split("\t")[-1]) for row in rows]
    assert [i for i, row in enumerate(rows) if "★" in row] == [rates.index(max(rates))]
    assert choice.locator("svg").count() == 3
    assert choice.locator("circle.chosen").count() == 3
    names = blank.locator("#statistics .models").inner_text()
    assert "mean_length" in names
    assert "num_drafted" in names
