#!/bin/sh
# Installs Debian packages, as root. Arguments: the names of the packages.
set -eu
as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo"
fi
$as_root apt-get update -qq
$as_root apt-get install -y -qq "$@" >/dev/null
