#!/bin/sh
# Makes sure that a Chromium is there for the browser tests; does nothing where one is.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done
if ! command -v apt-get >/dev/null 2>&1; then
    echo "The browser tests need Chromium: install it so that 'chromium' is on the PATH." >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo"
fi
$as_root apt-get update -qq
$as_root apt-get install -y -qq chromium >/dev/null
