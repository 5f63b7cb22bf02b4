#!/usr/bin/env bash
# Fetches the pinned versions of the libraries that the dashboard's pages load from npm, and copies their minified files and
# licences to internal/dashboard/assets, with their checksums. Also fetches axe-core, which the tests of the pages run, to
# bin/ui: it is not checked in. Only a change of a version needs this script: building livesched does not.
set -euo pipefail
cd "$(dirname "$0")/../.."

htmx=2.0.11
uplot=1.6.32
axe=4.14.1

assets=$PWD/internal/dashboard/assets
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch downloads a package of npm without running its scripts, and unpacks it.
fetch() {
	mkdir -p "$work/$1"
	(cd "$work/$1" && npm pack --silent --ignore-scripts "$1@$2" >name && tar -xzf "$(tail -n 1 name)")
}

fetch axe-core $axe
mkdir -p bin/ui
cp "$work/axe-core/package/axe.min.js" bin/ui/axe.min.js
if [ "${1:-}" = axe ]; then
	exit
fi

fetch htmx.org $htmx
cp "$work/htmx.org/package/dist/htmx.min.js" "$assets/htmx.min.js"
cp "$work/htmx.org/package/LICENSE" "$assets/LICENSE-htmx"
fetch uplot $uplot
cp "$work/uplot/package/dist/uPlot.iife.min.js" "$assets/uplot.min.js"
cp "$work/uplot/package/dist/uPlot.min.css" "$assets/uplot.min.css"
cp "$work/uplot/package/LICENSE" "$assets/LICENSE-uplot"
cd "$assets"
sha256sum htmx.min.js uplot.min.js uplot.min.css LICENSE-htmx LICENSE-uplot >CHECKSUMS
