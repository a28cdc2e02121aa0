#!/bin/sh
# The tests of the core and of its models on the oldest versions that requirements.txt allows, in an environment of
# their own, .venv-oldest, or that which is named: sh tests/oldest.sh FOLDER. torch 2.8 takes 8 GB with its libraries for GPUs.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-.venv-oldest}
mkdir -p "$folder"
sed 's/>=\([^,]*\),.*/==\1/' requirements.txt >"$folder/oldest.txt"
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/pip" install -q -r tests/requirements.txt -c "$folder/oldest.txt"
# old packages use what newer ones below them deprecate
OMP_NUM_THREADS=1 "$folder/bin/python" -m pytest tests/core tests/models tests/project -W ignore::DeprecationWarning
