"""The methods: each verifies a drafted tree by a pure function that needs no model.

Each function is a `Verifier`, verify(drafted, log_p, noise) -> Verdict. Rows are those of the target call:
row 0 is the root (see `topology`). `specdec.algorithms` states the paper's rules on small tables, and
`tests/helpers/other_rules.py` states those of other papers.

gsd, ersd                        the paper's Algorithms 4 and 5
traversal, specinfer, spectr     rules of other papers
copied                           after a rule's verdict: verification of tokens copied from the text
residual                         P and Q at a node, and their change by rejections
late                             tokens on a GPU, which the host reads later
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
