"""`python -m components.watermark` serves this panel beside a short run."""

from components.server.standalone import alone
from components.watermark.panel import panel

alone(panel)
