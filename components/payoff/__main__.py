"""`python -m components.payoff` serves this panel alone."""

import specdec
from components.payoff.panel import panel
from components.server.standalone import serve

serve(panel(specdec.load_pair("stories")))
