"""`python -m components.lessons` serves this panel alone."""

from components.lessons.panel import bar, panel
from components.server.standalone import serve

serve(bar(), panel())
