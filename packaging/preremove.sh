#!/bin/sh
# Before the files are removed, but not before an upgrade: stops the unit's captures. dpkg says
# "remove", rpm 0.
set -e
case "$1" in remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl stop 'xdpcap@*.service' || true
    fi
esac
