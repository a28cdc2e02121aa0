"""Figures of the theory, drawn with plotly: `pip install 'specdec-races[figures]'`.

theory      acceptance and trees as the theory predicts them, with numbers, for notebooks
drafts      acceptance against the number of drafts, for the page and for notebooks
labs        the figures of the page's laboratories, without the numbers, which the page fills in
looks       the appearance of every figure
topologies  the name, the mark and the line style of each topology
"""

from importlib.util import find_spec

if find_spec("plotly") is None:
    raise ImportError("specdec.figures needs plotly: pip install 'specdec-races[figures]'")

from specdec.figures.theory import acceptance_by_drafts, acceptance_by_index, tokens_against_k

__all__ = ["acceptance_by_drafts", "acceptance_by_index", "tokens_against_k"]
