"""Figures of the theory, by plotly: `pip install 'specdec-races[figures]'`.

theory       what the theory says of acceptance and of trees, with its numbers: for notebooks
drafts       acceptance against the number of drafts, for the page and for notebooks
labs         the figures of the page's laboratories, whose numbers the page fills in
looks        how every figure looks
topologies   topologies by their names, marks and lines
"""

from importlib.util import find_spec

if find_spec("plotly") is None:
    raise ImportError("specdec.figures needs plotly: pip install 'specdec-races[figures]'")

from specdec.figures.theory import acceptance_by_drafts, acceptance_by_index, tokens_against_k

__all__ = ["acceptance_by_drafts", "acceptance_by_index", "tokens_against_k"]
