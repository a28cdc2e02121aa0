#!/bin/sh
# Makes sure that nginx and Caddy are there for the tests of docs/serving.md; does nothing where they are. The services
# that their packages start are switched off again.
set -eu
PATH="$PATH:/usr/sbin"
missing=""
for name in nginx caddy; do
    if ! command -v "$name" >/dev/null 2>&1; then
        missing="$missing $name"
    fi
done
if [ -z "$missing" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "Attacks through a proxy will not be tested: install$missing so that they are on the PATH." >&2
    exit 0
fi
# shellcheck disable=SC2086 # one word for each package
sh "$(dirname "$0")/install_packages.sh" $missing
if [ -d /run/systemd/system ]; then
    # shellcheck disable=SC2086
    $([ "$(id -u)" = 0 ] || echo sudo) systemctl disable --quiet --now $missing
fi
