#!/bin/sh
# The first of three tiers, for each change of the decoder: the core, the rules and the drafters.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
OMP_NUM_THREADS=1 python -m pytest -n 2 --dist loadfile -m "not slow" tests/core tests/rules tests/drafters "$@"
