"""`python -m components.decode` serves this tab alone, and `python -m components.decode tree race` only the
named panels, with a short run."""

import sys

import specdec
from components.decode.panel import panel
from components.decode.panels import of_run
from components.server.standalone import alone, serve

if names := sys.argv[1:]:
    alone(*map(of_run, names))
else:
    serve(panel(specdec.load_pair("stories")))
