"""Links to places in the paper."""

from __future__ import annotations

TITLE = "Speculative Decoding via Exponential Races"
URL = "https://arxiv.org/abs/2504.15475"


def reference(place: str) -> str:
    """A link to the paper that names a place in it, such as "Lemma 3.1, equation 1". The text must be
    trusted."""
    return f'<a href="{URL}" target="_blank" rel="noopener" title="{TITLE}">{place}</a>'
