"""`python -m components.race_lab` serves a page of this panel and a short run."""

from components.race_lab.panel import panel
from components.server.standalone import alone

alone(panel())
