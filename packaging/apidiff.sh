#!/bin/bash
# apidiff.sh APIDIFF [SINCE]: prints what has changed in the exported names of the module since the
# commit SINCE, or since the last tag before HEAD. APIDIFF is golang.org/x/exp/cmd/apidiff. It fails
# if there are incompatible changes and HEAD's own tag promises that there are none: v0.2.1 after
# v0.2.0, or v1.3.0 after v1.2.0.
set -euo pipefail
apidiff=$(realpath "$1")
since=${2:-}
cd "$(dirname "$0")/.."

if [ -z "$since" ] && ! since=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null); then
    echo "apidiff: nothing to compare with, because there is no earlier tag; make apidiff SINCE=COMMIT compares with a commit"
    exit
fi
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive --output="$old/tree.tar" "$since"
mkdir "$old/tree"
tar -x -f "$old/tree.tar" -C "$old/tree"

# compare compares all packages but the internal ones. It says of those on stderr that it ignores
# them, and on stdout where it has found two reasons for one change: neither is of use here.
module=$(go list -m)
(cd "$old/tree" && "$apidiff" -m -w "$old/export" "$module")
compare() {
    "$apidiff" -m "$@" "$old/export" "$module" 2> "$old/said" > "$old/changes" || { cat "$old/said" >&2; exit 1; }
    sed '/^! second, different message/d; /^  \(first\|second\):/d' "$old/changes"
}
changes=$(compare)
broken=$(compare -incompatible)
echo "The API since $since:${changes:+$'\n'}${changes:- unchanged}"

# series prints the versions that must stay compatible: 0.2 for v0.2.1, 1 for v1.2.3.
series() { echo "$1" | sed -E 's/^v(0\.[0-9]+|[0-9]+).*/\1/'; }
tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null || true)
if [ -n "$broken" ] && [ -n "$tag" ] && [ "$(series "$tag")" = "$(series "$since")" ]; then
    echo "apidiff: $tag must stay compatible with $since: undo the incompatible changes, or choose another number" >&2
    exit 1
fi
