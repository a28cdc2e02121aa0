#!/bin/sh
# Form and types of the Python code; those of the page's scripts are tests/scripts.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
ruff check .
ruff format --check .
mypy
