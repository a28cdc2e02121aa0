#!/bin/sh
# Makes sure that Chromium and WebKit are there for the browser tests; does nothing where both are.
set -eu
is_there() { command -v "$1" >/dev/null 2>&1; }

missing=""
is_there chromium || is_there chromium-browser || is_there google-chrome || missing="chromium"
is_there WebKitWebDriver && is_there Xvfb || missing="$missing webkit2gtk-driver xvfb"
if [ -z "$missing" ]; then
    exit 0
fi
if ! is_there apt-get; then
    echo "The browser tests need these programs of Debian's packages: $missing. Install them." >&2
    exit 1
fi
# shellcheck disable=SC2086 # one word for each package
sh "$(dirname "$0")/install_packages.sh" $missing
