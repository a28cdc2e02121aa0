"""A short run of the command that measures the cost of watching."""

from tests.stress import watched


def test_a_watched_run_is_timed_beside_the_same_run_alone(page, url, monkeypatch):
    monkeypatch.setattr(watched, "SETTLED", 0)  # leaves out waiting times that only a measurement needs
    found = watched.compare(page, url, "stories", repeats=1, length=24)
    for method in ("ersd", "gsd"):
        assert found[method]["alone_tokens_per_second"] > 0
        assert found[method]["here"]["tokens_per_second"] > 0
        assert found[method]["elsewhere"]["tokens_per_second"] > 0
