"""`python -m components.compare` serves this panel alone."""

import specdec
from components.compare.panel import panel
from components.server.standalone import serve

serve(panel(specdec.load_pair("stories")))
