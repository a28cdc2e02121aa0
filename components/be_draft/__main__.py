"""`python -m components.be_draft` serves this panel alone."""

from functools import partial

import specdec
from components.be_draft.panel import panel
from components.server.standalone import serve

if __name__ == "__main__":
    serve(partial(panel, specdec.load_pair("stories")))
