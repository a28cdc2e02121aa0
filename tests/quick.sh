#!/bin/sh
# What to run while working: form, types, the scripts' checks and the core's tests. .ci/run runs everything.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
sh tests/form.sh
sh tests/install_node_tools.sh
OMP_NUM_THREADS=1 python -m pytest tests/scripts tests/project tests/core "$@"
