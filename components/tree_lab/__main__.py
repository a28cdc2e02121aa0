"""`python -m components.tree_lab` serves this panel alone."""

from components.server.standalone import alone
from components.tree_lab.panel import panel

if __name__ == "__main__":
    alone(panel)
