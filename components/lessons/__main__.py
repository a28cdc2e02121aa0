"""`python -m components.lessons` serves this panel alone."""

import specdec
from components.lessons.panel import bar, panel
from components.server.standalone import serve

serve(bar(), panel(specdec.load_pair("stories")))
