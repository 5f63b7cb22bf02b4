#!/usr/bin/env bash
# Runs each fuzz target of the module for FUZZTIME, one after the other: `go test -fuzz` takes one at a time. By default it would
# spend up to a minute on making each new input smaller, which for large texts, such as manifests, is all of the time.
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' api cmd controllers internal test hack | sort |
	while IFS=: read -r file func; do
		target=${func#func }
		echo "== $target ($(dirname "$file"))"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-20s}" -fuzzminimizetime 10x "./$(dirname "$file")"
	done
