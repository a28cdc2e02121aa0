"""`python -m research.audit`."""

import sys

from research.audit.command import main
from specdec.commands import ended

if __name__ == "__main__":
    with ended():
        sys.exit(main())
