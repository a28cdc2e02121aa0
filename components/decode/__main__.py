"""`python -m components.decode` serves this view alone, and `python -m components.decode tree race` only the
named panels, with a short run."""

import sys

import specdec
from components.decode.panel import panel
from components.decode.panels import OF_RUN, of_run
from components.server.standalone import alone, serve
from specdec.checks import among
from specdec.commands import without_traceback

with without_traceback():
    if names := sys.argv[1:]:
        alone(*(of_run(among("panel", name, OF_RUN)) for name in names))
    else:
        serve(panel(specdec.load_pair("stories")))
