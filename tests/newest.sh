#!/bin/sh
# The tests of the core and its models on the newest torch and transformers that pyproject.toml allows, in an
# environment of its own: .venv-newest, or the folder that is named: sh tests/newest.sh FOLDER. Some of these tests
# import the page, so the page's packages are installed too. On Linux, torch from PyPI takes several gigabytes with its
# libraries for GPUs; with PIP_CONSTRAINT=FILE, a file like "torch<2.14" holds it back.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-.venv-newest}
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/pip" install -q --upgrade --upgrade-strategy eager -e '.[app,test]'
# a new version may deprecate what older ones need
OMP_NUM_THREADS=1 "$folder/bin/python" -m pytest tests/core tests/models tests/rules -W ignore::DeprecationWarning \
    -W ignore::FutureWarning
