#!/bin/sh
# After an installation or an upgrade. A running capture is not affected.
set -e

# The user and the group xdpcap. Without any of these programs the unit has a dynamic user of this
# name. So has one that runs now: without the variable these programs find that user and make none.
export SYSTEMD_NSS_DYNAMIC_BYPASS=1
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers xdpcap.conf
elif [ -n "${DPKG_MAINTSCRIPT_PACKAGE:-}" ] && command -v adduser >/dev/null; then
    adduser --quiet --system --group --home /nonexistent --no-create-home --gecos 'Packet capture by xdpcap' xdpcap
elif command -v useradd >/dev/null; then
    getent group xdpcap >/dev/null || groupadd --system xdpcap
    getent passwd xdpcap >/dev/null || useradd --system --gid xdpcap --home-dir /nonexistent --no-create-home \
        --shell /usr/sbin/nologin --comment 'Packet capture by xdpcap' xdpcap
fi

profile=/etc/apparmor.d/usr.bin.xdpcap
if [ -e $profile ] && aa-enabled --quiet 2>/dev/null; then
    apparmor_parser --replace --skip-read-cache --write-cache $profile || true
fi

if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
