#!/bin/sh
# After the files are removed. If nothing shall stay (dpkg says "purge", rpm 0), the links that
# systemctl enable has made are removed, too. Captured files stay: they belong to the user.
set -e
case "$1" in purge | 0)
    rm -f /etc/systemd/system/*.wants/xdpcap@*.service
esac
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
