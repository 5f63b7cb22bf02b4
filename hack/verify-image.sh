#!/usr/bin/env bash
# Builds the image of the last commit twice, in different directories, and fails if the digests differ. Both builds use
# the Go build cache. SECOND_GOCACHE names an empty directory for a second build that compiles everything again, which
# takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${PLATFORMS:=linux/amd64,linux/arm64}"
version=$(git describe --tags --always)
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT
for copy in first the-second; do
	mkdir "$copies/$copy"
	git archive HEAD | tar -x -C "$copies/$copy"
	if [ $copy = the-second ] && [ -n "${SECOND_GOCACHE:-}" ]; then
		export GOCACHE="$SECOND_GOCACHE"
	fi
	make --no-print-directory -C "$copies/$copy" image VERSION="$version" COMMIT="$commit" PLATFORMS="$PLATFORMS"
done

if ! cmp "$copies/first/bin/image/index.json" "$copies/the-second/bin/image/index.json"; then
	echo "verify-image: two builds of $commit have different digests" >&2
	exit 1
fi
echo "verify-image: two builds of $commit have one digest"
