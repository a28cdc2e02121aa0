"""`python -m specdec.exactness.audit`."""

import sys

from specdec.commands import without_traceback
from specdec.exactness.audit.command import main

if __name__ == "__main__":
    with without_traceback():
        sys.exit(main())
