"""`python -m components.losslessness` serves this panel alone."""

from components.losslessness.panel import panel
from components.server.standalone import serve

serve(panel())
