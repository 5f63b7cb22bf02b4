#!/usr/bin/env bash
# Fails if a row of the threat model names a test that does not exist. The last column of its tables, "Test", has
#   `TestName`, perhaps followed by "in `package`" or by a case of it, after a colon
#   `title of a Describe`: the beginning of the title of a spec
#   same: that of another one
#   `package`, whose tests as a whole show it
# separated by semicolons or commas.
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/operate/threat-model.md

complain() {
	echo "threatmodel: $page: $1" >&2
	broken=1
}

# has looks for a fixed string in the tests.
has() {
	grep -rqF --include='*_test.go' -- "$1" api cmd controllers internal test
}

broken=0 rows=0
while IFS= read -r tests; do
	rows=$((rows + 1))
	[ -n "$tests" ] || complain "a row names no test"
	while IFS= read -r name; do
		case $name in
		Test*) has "func $name(t " || complain "there is no $name" ;;
		*' '*) has "Describe(\"$name\"" || complain "there is no Describe(\"$name\")" ;;
		*) [ -d "$name" ] && compgen -G "$name/*_test.go" >/dev/null || complain "$name has no tests" ;;
		esac
	done < <(grep -o '`[^`]*`' <<<"$tests" | tr -d '`')
	while IFS= read -r title; do
		has "\"$title" || complain "no spec begins with: $title"
	done < <(tr ';' '\n' <<<"$tests" | sed -n 's/^[^:]*: *//p' | sed 's/ (`.*//; s/ *$//')
done < <(awk -F' *\\| *' '
	/^\|/ && $(NF-1) == "Test" { on = 1; next }
	!/^\|/ { on = 0 }
	on && !/^\|---/ { print $(NF-1) }' "$page")
[ "$rows" -gt 20 ] || complain "only $rows rows name tests"
exit $broken
