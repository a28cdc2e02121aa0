"""`python -m components.tree_lab` serves this panel beside a short run."""

from components.server.standalone import alone
from components.tree_lab.panel import panel

alone(panel)
