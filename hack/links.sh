#!/usr/bin/env bash
# Fails if a relative link in a Markdown file names a file that does not exist, or an anchor without a heading.
set -euo pipefail
cd "$(dirname "$0")/.."

# anchors prints the anchors of the headings of a page, as GitHub builds them.
anchors() {
	sed -n 's/^#\+ //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}

broken=0
while IFS=: read -r page link; do
	link=${link#](} link=${link%)} file=${link%%#*}
	[ -n "$file" ] && file=$(dirname "$page")/$file || file=$page
	if [ ! -e "$file" ] || { [[ $link = *#* ]] && ! grep -qxF -- "${link#*#}" <(anchors "$file"); }; then
		echo "links: $page: $link does not resolve" >&2
		broken=1
	fi
done < <(git ls-files '*.md' | xargs grep -oHE '\]\([^*() ]+\)' | grep -v '](https\?:')
exit $broken
