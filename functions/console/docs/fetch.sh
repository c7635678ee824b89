#!/bin/sh
# Fetches the script of the rendered API description: ./fetch.sh [version].
# Without a version, the one recorded in VERSION. Needs npm, tar and gzip.
set -eu
cd "$(dirname "$0")"
version=${1:-$(cat VERSION)}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
npm pack --silent --pack-destination "$dir" "@scalar/api-reference@$version" >/dev/null
tar -xzf "$dir"/*.tgz -C "$dir"
gzip -9 -n -c "$dir/package/dist/browser/standalone.js" >scalar.js.gz
printf '%s\n' "$version" >VERSION
