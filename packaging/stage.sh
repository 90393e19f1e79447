#!/bin/sh
# stage.sh ROOT BINARY: puts all files to install under ROOT, from where `make install` and the
# packages take them. Environment variables give the paths: PREFIX, EXTCAPDIR, ZSHDIR, and SBOM, if
# there is one. GENERATOR is an xdpcap that runs on this machine and makes manual pages and
# completions. All files get the time SOURCE_DATE_EPOCH, so that packages of the same sources are
# equal.
set -eu
umask 022
root=$1 binary=$2
cd "$(dirname "$0")/.."
rm -rf "$root"

place() { install -D -m "$1" "$2" "$root$3"; }
share=$PREFIX/share
doc=$share/doc/xdpcap

place 0755 "$binary" "$PREFIX/bin/xdpcap"
mkdir -p "$root$EXTCAPDIR" "$root/etc/xdpcap"
ln -sr "$root$PREFIX/bin/xdpcap" "$root$EXTCAPDIR/xdpcap"

"$GENERATOR" man --dir "$root$share/man"
find "$root$share/man" -type f -exec gzip -9n {} +
for shell in bash zsh fish; do
    "$GENERATOR" completion $shell > "$root/completion.$shell"
done
place 0644 "$root/completion.bash" "$share/bash-completion/completions/xdpcap"
place 0644 "$root/completion.zsh" "$ZSHDIR/_xdpcap"
place 0644 "$root/completion.fish" "$share/fish/vendor_completions.d/xdpcap.fish"
rm "$root"/completion.*

sed "s,@BINDIR@,$PREFIX/bin,; s,@DOCDIR@,$doc," packaging/xdpcap@.service > "$root/unit"
place 0644 "$root/unit" "$PREFIX/lib/systemd/system/xdpcap@.service"
rm "$root/unit"

place 0644 packaging/xdpcap.sysusers "$PREFIX/lib/sysusers.d/xdpcap.conf"

# All texts, because README.md and the pages link to each other.
for file in *.md LICENSE $(find docs -type f); do
    place 0644 "$file" "$doc/$file"
done
place 0644 packaging/copyright "$doc/copyright"
place 0644 packaging/release-signers "$doc/release-signers"
place 0644 packaging/xdpcap.conf.example "$doc/examples/eth0.conf"
for file in $(cd contrib && find . -type f); do
    place 0644 "contrib/$file" "$doc/examples/$file"
done
if [ -n "${SBOM:-}" ]; then
    place 0644 "$SBOM" "$doc/sbom.cdx.json"
fi
find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
