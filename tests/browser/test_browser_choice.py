"""The statistics say why `auto` took its tree. They use the same names of the acceptance as records."""

from playwright.sync_api import expect

from tests.conftest import generate, go


def all_statistics(page, url, topology):
    """Decode on this topology, and open all statistics of the run."""
    go(page, f"{url}/?baseline=0&topology={topology}&length=24&seed=1")
    generate(page)
    page.locator("#statistics .all > summary").click()
    return page.locator("#statistics")


def test_the_choice_of_auto_is_explained(blank, url):
    choice = all_statistics(blank, url, "auto").locator(".choice")
    drafted = blank.evaluate("window.specdec.store.state.rounds.map(({ nodes }) => nodes.length)")
    mean = sum(drafted) / len(drafted)
    # on a busy machine drafting may not pay
    found = (
        f", {mean:.1f} drafted tokens per call on average" if mean else " found that drafting does not pay"
    )
    expect(choice.locator("summary")).to_contain_text(f"topology: auto{found}")
    expect(choice.locator("summary")).to_contain_text("why this tree?")
    choice.locator("summary").click()
    rows = choice.locator("tbody tr").all_inner_texts()
    rates = [float(row.split("\t")[-1]) for row in rows]
    assert [rate for row, rate in zip(rows, rates, strict=True) if "★" in row] == [max(rates)]
    assert choice.locator("svg").count() == 3
    assert choice.locator("circle.chosen").count() == 3


def test_the_acceptance_has_the_names_of_the_record(blank, url):
    names = all_statistics(blank, url, "sequence&k=2").locator(".models")
    expect(names).to_contain_text("mean_length")
    expect(names).to_contain_text("num_drafted")
