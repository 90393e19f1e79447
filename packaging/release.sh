#!/bin/bash
# release.sh: makes the release that HEAD is tagged with, in dist/VERSION: packages, images, bills
# of materials, checksums and their signature. RELEASE_KEY names the file of the SSH key that signs,
# or of its public half where an agent has the key. It first empties dist/, and stops at the first
# step that fails: then nothing is in dist/, or if only the signature is missing, the files are in
# dist/unsigned-VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."
export CI=true # a skipped test is a failure
signers=packaging/release-signers

stop() { echo "release: $*" >&2; exit 1; }
check_clean() { [ -z "$(git status --porcelain)" ] || stop "the tree has changes that are not committed: git status"; }

# sign signs a file, and checks the signature as docs/install.md says.
sign() {
    rm -f "$1.sig"
    ssh-keygen -q -Y sign -n file -f "$RELEASE_KEY" "$1" &&
        ssh-keygen -q -Y verify -f $signers -I xdpcap -n file -s "$1.sig" < "$1"
}

check_clean
commit=$(git rev-parse HEAD)
tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) ||
    stop "HEAD has no tag like v0.2.0: CONTRIBUTING.md, Releases"
version=${tag#v}
heading=$(grep -m 1 '^## ' CHANGELOG.md)
[[ $heading =~ ^"## $version ("[0-9]{4}-[0-9]{2}-[0-9]{2}")"$ ]] ||
    stop "the tag is $tag, so the first heading of CHANGELOG.md must be \"## $version (DATE)\": it is \"$heading\""

# A key that cannot sign is found before the tests, which take long.
key=${RELEASE_KEY:-}
if [ -z "$key" ]; then
    echo "release: without RELEASE_KEY=FILE nothing will be signed"
else
    [ -f "$key" ] || stop "RELEASE_KEY=$key: there is no such file"
    [[ $(realpath "$key") != "$PWD"/* ]] || stop "RELEASE_KEY=$key: a key must not be in the repository"
    trial=$(mktemp -d)
    trap 'rm -rf "$trial"' EXIT
    echo trial > "$trial/file"
    sign "$trial/file" || stop "RELEASE_KEY=$key cannot sign, or $signers does not have it: CONTRIBUTING.md, Releases"
    rm -rf "$trial"
fi

trap 'rm -rf dist' EXIT
rm -rf dist bin/_linux # the kernels of an earlier release are no longer the newest
make apidiff
make lint
make test
make test-race
make test-surroundings
make test-kernels KERNEL='6.1 6.12 arm64 newest'
make test-packages # makes the packages first
make image
check_clean
[ "$(git rev-parse HEAD)" = "$commit" ] || stop "HEAD is no longer $tag"

files=dist/unsigned-$version
mkdir "$files"
find dist -mindepth 1 -maxdepth 1 ! -path "$files" -exec mv -t "$files" {} +
for arch in amd64 arm64; do
    cp "bin/package/$arch/sbom.json" "$files/xdpcap-$version-$arch.cdx.json"
done
sums=$(cd "$files" && sha256sum -- *)
echo "$sums" > "$files/SHA256SUMS"
trap - EXIT

[ -n "$key" ] || stop "RELEASE_KEY is not set: $files is complete but not signed"
sign "$files/SHA256SUMS" || { rm -f "$files/SHA256SUMS.sig"; stop "$files is complete but not signed: RELEASE_KEY=$key has failed"; }
mv "$files" "dist/$version"
echo "release: dist/$version is complete and signed"
