"""`python -m specdec.exactness.audit`."""

import sys

from specdec.commands import ended
from specdec.exactness.audit.command import main

if __name__ == "__main__":
    with ended():
        sys.exit(main())
