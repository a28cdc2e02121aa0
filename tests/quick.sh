#!/bin/sh
# The second of three tiers, before each commit: form, types, the scripts, and the core's tests without the slow ones.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
sh tests/form.sh
sh tests/install_node_tools.sh
OMP_NUM_THREADS=1 python -m pytest -n 2 --dist loadfile -m "not slow" \
    tests/scripts tests/project tests/core tests/drafters tests/rules tests/exactness \
    tests/ecosystem tests/terminal "$@"
