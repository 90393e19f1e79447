#!/bin/sh
# Before the files go, and not before an upgrade: captures of the unit end. dpkg says "remove", rpm 0.
set -e
case "$1" in remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl stop 'xdpcap@*.service' || true
    fi
esac
