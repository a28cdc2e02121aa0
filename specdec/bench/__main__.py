"""`python -m specdec.bench`."""

from specdec.bench.command import main

if __name__ == "__main__":
    main()
