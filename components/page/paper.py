"""Where in the paper something stands, as a link for a panel's text."""

from __future__ import annotations

TITLE = "Speculative Decoding via Exponential Races"
URL = "https://arxiv.org/abs/2504.15475"


def reference(place: str) -> str:
    """A link to the paper that names the place in it, such as "Lemma 3.1, equation 1"; trusted text only."""
    return f'<a href="{URL}" target="_blank" rel="noopener" title="{TITLE}">{place}</a>'
