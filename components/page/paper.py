"""The paper: links to places in it, and the view that lists its results and where this page shows them."""

from __future__ import annotations

from components.page import frame

TITLE = "Speculative Decoding via Exponential Races"
URL = "https://arxiv.org/abs/2504.15475"


def reference(place: str) -> str:
    """A link to the paper that names a place in it, such as "Lemma 3.1, equation 1". The text must be
    trusted."""
    return f'<a href="{URL}" target="_blank" rel="noopener" title="{TITLE}">{place}</a>'


_PLACES = """
Section 3, Lemma 3.1 | how often two races with shared random times have the same winner | race | Race lab
Algorithms 1 to 5 | checking a draft tree keeps the distribution, in ERSD even the text | live | Decode
Section 4, Algorithm 3 | the tree of k tokens with the most tokens per call | trees | Tree lab
Theorem 4.1, Lemma 4.2 | tokens per call are at most log k divided by an entropy | trees | Tree lab
Section 4, Appendix C | the same races send samples, and the optimal tree is a Tunstall code | codecs | Codecs
Section 5 | measured tokens per call against k for three ways of drafting | experiments | Experiments
"""
"""Places in the paper, what each says, and the view that shows it, by id and title."""


def _row(place: str, says: str, view: str, title: str) -> str:
    link = f'<a href="?tab={view}">{title}</a>'
    return f'<tr><th scope="row">{reference(place)}</th><td>{says}</td><td>{link}</td></tr>'


_ROWS = "".join(_row(*row.split(" | ")) for row in _PLACES.strip().splitlines())


def panel() -> frame.Part:
    """The view. It needs no script."""
    return frame.Part(f"""<section id="paper" class="block panel" aria-labelledby="paper-title">
  <h2 id="paper-title">{reference(TITLE)}</h2>
  <p class="note">Szymon Kobus and Deniz Gündüz, 2025</p>
  <p>A large model chooses each token by a race: every token gets a random time, divided by its probability,
    and the first arrival wins. A small model runs the same race with the same random times, so that it often
    has the same winner, and guesses ahead. The large model then checks all guesses in one call. The text
    keeps the large model's distribution.</p>
  <p>The paper derives two methods from that, {frame.term("GSD")} and {frame.term("ERSD")}, the best tree of
    guesses, and a bound: tokens per call grow only with the logarithm of the number of guesses
    {frame.term("k")}. The paper's link to information theory is channel simulation, which uses the same
    race.</p>
  <div class="scroll"><table><caption>The paper's results, and where this page has them</caption>
    <thead><tr><th scope="col">in the paper</th><th scope="col">says</th>
      <th scope="col">try it</th></tr></thead>
    <tbody>{_ROWS}</tbody></table></div>
</section>
""")
