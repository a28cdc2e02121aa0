"""`python -m components.watermark` serves a page of this panel and a short run."""

from components.server.standalone import alone
from components.watermark.panel import panel

alone(panel())
