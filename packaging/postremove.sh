#!/bin/sh
# After the files went. dpkg says "purge" where nothing shall stay, rpm 0: then the links go that
# systemctl enable has made. What was captured stays: it is the user's.
set -e
case "$1" in purge | 0)
    rm -f /etc/systemd/system/*.wants/xdpcap@*.service
esac
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
