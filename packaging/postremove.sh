#!/bin/sh
# After the files are removed. If nothing shall stay (dpkg says "purge", rpm 0), the links that
# systemctl enable has made are removed, too, and what aa-complain and its like have made. Captured
# files stay: they belong to the user. So the user xdpcap stays, who owns some of them: without it
# their number could become that of another user.
set -e
case "$1" in purge | 0)
    rm -f /etc/systemd/system/*.wants/xdpcap@*.service
    for directory in disable force-complain local; do
        rm -f /etc/apparmor.d/$directory/usr.bin.xdpcap
        rmdir /etc/apparmor.d/$directory 2>/dev/null || true
    done
esac
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
