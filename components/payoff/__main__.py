"""`python -m components.payoff` serves this panel alone, with the embedded pair."""

from functools import partial

import specdec
from components.payoff.panel import panel
from components.server.standalone import serve

if __name__ == "__main__":
    serve(partial(panel, specdec.load_pair("stories")))
