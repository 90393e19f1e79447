#!/bin/sh
# After an installation or an upgrade: systemd reads the unit. A running capture is not affected.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
