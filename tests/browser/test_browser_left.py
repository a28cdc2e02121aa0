"""A measurement of Payoff ends when its visitor leaves, and other questions are answered while it runs."""

import time

import httpx
import pytest
from playwright.sync_api import expect

from components.payoff.here import PATIENCE
from tests.conftest import ready
from tests.stress.visitors import ROOT, serving

# A measurement that never ends by itself. A file appears when it is closed.
_SERVER = """
import sys
import time
from pathlib import Path

sys.path.insert(0, {root!r})
import app
from components.payoff import here

def endless(*_):
    try:
        while True:
            time.sleep(0.001)
            yield
    finally:
        Path({folder!r}, "ended").touch()

here.measuring = endless
app.main()
"""


@pytest.fixture
def site(tmp_path):
    server = tmp_path / "server.py"
    server.write_text(_SERVER.format(root=str(ROOT), folder=str(tmp_path)))
    with serving(app=server) as (address, _):
        while not asked(address, "models/state", {})["models"]:
            time.sleep(0.5)
        yield address


def asked(address, name, question):
    return httpx.post(f"{address}/ask/{name}", json=question, timeout=60).raise_for_status().json()


def appears(path, seconds=30):
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return path.exists()


QUESTIONS = {
    "race_lab/exact": {"p": [0.5, 0.5], "q": [0.25, 0.75]},
    "payoff/verdict": {"preset": "paper"},
}


def test_a_measurement_ends_when_its_visitor_leaves_and_delays_no_laboratory(someone, site, tmp_path):
    page = someone(f"{site}/?tab=payoff")
    ready(page)
    page.locator("#payoff .measure").click()
    expect(page.locator("#payoff progress")).to_be_visible()
    for name, question in QUESTIONS.items():
        assert "error" not in asked(site, name, question), name
    assert not appears(tmp_path / "ended", seconds=PATIENCE + 2), "the visitor still waits for it"
    page.close()
    assert appears(tmp_path / "ended")
