"""`python -m components.race_lab` serves this panel beside a short run."""

from components.race_lab.panel import panel
from components.server.standalone import alone

alone(panel)
