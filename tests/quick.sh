#!/bin/sh
# What to run while working: form, types, the scripts' checks and the core's tests but the slow ones. .ci/run runs
# everything.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
sh tests/form.sh
sh tests/install_node_tools.sh
OMP_NUM_THREADS=1 python -m pytest -n 2 --dist loadfile -m "not slow" \
    tests/scripts tests/project tests/core tests/drafters tests/rules tests/exactness \
    tests/ecosystem tests/terminal "$@"
