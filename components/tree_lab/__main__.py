"""`python -m components.tree_lab` serves a page of this panel and a short run."""

from components.server.standalone import alone
from components.tree_lab.panel import panel

alone(panel())
