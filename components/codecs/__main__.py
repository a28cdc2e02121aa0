"""`python -m components.codecs` serves this panel alone."""

from components.codecs.panel import panel
from components.server.standalone import serve

serve(panel())
