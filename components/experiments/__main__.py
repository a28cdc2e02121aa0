"""`python -m components.experiments` serves this panel alone."""

from components.experiments.panel import panel
from components.server.standalone import serve

serve(panel())
