"""`python -m components.decode` serves this panel alone."""

import specdec
from components.decode.panel import panel
from components.server.standalone import serve

serve(panel(specdec.load_pair("stories")))
