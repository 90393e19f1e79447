#!/bin/sh
# Prints the version of this tree: that of the tag, if there is one; otherwise the newest version in
# CHANGELOG.md, which is still in work, with the commit. A heading without a number, such as
# "Unreleased", is skipped.
cd "$(dirname "$0")/.."
if tag=$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null); then
    # v0.1.0-5-gabcdef0 is newer than v0.1.0, so it becomes 0.1.0+5.gabcdef0.
    echo "$tag" | sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/; s/(\+.*)-dirty/\1.dirty/; s/-dirty/+dirty/'
    exit
fi
release=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)
commit=$(git describe --always --dirty 2>/dev/null | sed 's/^/+g/; s/-dirty/.dirty/')
echo "$release-dev$commit"
