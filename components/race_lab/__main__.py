"""`python -m components.race_lab` serves this panel alone."""

from components.race_lab.panel import panel
from components.server.standalone import alone

if __name__ == "__main__":
    alone(panel)
