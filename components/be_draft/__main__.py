"""`python -m components.be_draft` serves this panel alone."""

import specdec
from components.be_draft.panel import panel
from components.server.standalone import serve

serve(panel(specdec.load_pair("stories")))
