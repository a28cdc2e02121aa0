"""`python -m components.lessons` serves this panel alone."""

from functools import partial

import specdec
from components.lessons.panel import bar, panel
from components.server.standalone import serve

if __name__ == "__main__":
    serve(bar, partial(panel, specdec.load_pair("stories")))
