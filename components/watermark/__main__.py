"""`python -m components.watermark` serves this panel alone."""

from components.server.standalone import alone
from components.watermark.panel import panel

if __name__ == "__main__":
    alone(panel)
