"""The methods. Each verifies a drafted tree by a pure function that needs no model.

Each function is a `Verifier`, verify(drafted, log_p, noise) -> Verdict. Its rows are the rows of the target's
forward pass; row 0 is the root (see `topology`). `specdec.algorithms` states the paper's rules on small
tables, and `tests/helpers/other_rules.py` states the rules of other papers.

gsd, ersd                        the paper's Algorithms 4 and 5
traversal, specinfer, spectr     rules of other papers
copied                           verifies tokens copied from the text, after a rule's verdict
residual                         P and Q at a node, and how rejections change them
late                             tokens that a GPU has chosen and that the host reads later
verdict                          the input and the result of a rule, and the loop that most rules share
catalogue                        all methods by name
"""

from specdec.methods.catalogue import DRAFTING, METHODS
from specdec.methods.copied import followed
from specdec.methods.residual import Residual
from specdec.methods.verdict import Attempt, Decision, Drafted, Kind, Verdict, Verifier, descend

__all__ = [
    "DRAFTING",
    "METHODS",
    "Attempt",
    "Decision",
    "Drafted",
    "Kind",
    "Residual",
    "Verdict",
    "Verifier",
    "descend",
    "followed",
]
