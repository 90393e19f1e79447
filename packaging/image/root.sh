#!/bin/sh
# root.sh ROOT BINARY SBOM: puts all files of the container image under ROOT. Besides xdpcap these
# are its second name for programs that start tcpdump, the users root and nobody for -Z, and a
# directory for a capture that is copied out of the container later.
set -eu
umask 022
root=$1 binary=$2 sbom=$3
cd "$(dirname "$0")/../.."
rm -rf "$root"

install -D -m 0755 "$binary" "$root/usr/bin/xdpcap"
# A hard link, because some copy tcpdump alone into another image: a symbolic link would lead
# nowhere there.
ln "$root/usr/bin/xdpcap" "$root/usr/bin/tcpdump"
install -D -m 0644 packaging/copyright "$root/usr/share/doc/xdpcap/copyright"
install -D -m 0644 "$sbom" "$root/usr/share/doc/xdpcap/sbom.cdx.json"
mkdir "$root/etc"
cat > "$root/etc/passwd" <<'EOT'
root:x:0:0:root:/:/sbin/nologin
nobody:x:65534:65534:nobody:/:/sbin/nologin
EOT
cat > "$root/etc/group" <<'EOT'
root:x:0:
nogroup:x:65534:
EOT
mkdir "$root/tmp"
chmod 1777 "$root/tmp"
