#!/usr/bin/env bash
# Tests the Headlamp plugin (`headlamp.sh test`), or writes its archive to bin/headlamp (`headlamp.sh package`). Prints a
# line for each step, and what a step has written only if it fails: all of it is in bin/headlamp/*.log. What npm installs
# stays in ui/headlamp/node_modules, and is installed again when package-lock.json or the version of Node.js changes.
#
# A registry that npm cannot reach is no failure of the plugin: then this says so, and ends with status 0.
set -euo pipefail
cd "$(dirname "$0")/../.."

what=$1
target=${2:-$what}
logs=$PWD/bin/headlamp

for command in node npm; do
	command -v $command >/dev/null || { echo "$target: there is no $command: install Node.js 20.11 or later"; exit 1; }
done
node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 11) ? 0 : 1)' ||
	{ echo "$target: Node.js $(node --version) is too old: install 20.11 or later"; exit 1; }

mkdir -p "$logs"
cd ui/headlamp
export CI=1

# step runs a command; its name is that of the log.
step() {
	local name=$1 began=$SECONDS
	shift
	if ! "$@" >"$logs/$name.log" 2>&1; then
		[ "$name" = install ] && unreachable && return 3
		cat "$logs/$name.log"
		echo "$target: $name failed after $((SECONDS - began)) s"
		return 1
	fi
	echo "$target: $name: $((SECONDS - began)) s"
}

# install asks the registry for one package first, because npm ci tries hundreds of them before it gives up.
install() {
	npm view --fetch-timeout=15000 --fetch-retries=1 --fetch-retry-mintimeout=2000 @kinvolk/headlamp-plugin name &&
		npm ci --fetch-timeout=60000 --fetch-retries=1
}

# unreachable reports whether npm has failed for want of a registry that answers and serves.
unreachable() {
	grep -qE '^npm (error|ERR!) (code )?(ENOTFOUND|EAI_AGAIN|ECONN[A-Z]+|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|FETCH_ERROR|E401|E403|E407|E429|E5[0-9][0-9])\b' \
		"$logs/install.log"
}

installed="$(node --version) $(cat package.json package-lock.json .npmrc | node -e \
	'process.stdout.write(require("crypto").createHash("sha256").update(require("fs").readFileSync(0)).digest("hex"))')"
if [ "$(cat node_modules/.installed 2>/dev/null)" != "$installed" ]; then
	status=0
	step install install || status=$?
	if [ $status -eq 3 ]; then
		echo "$target: skipped, because npm cannot fetch packages: $(grep -m 1 -E '^npm (error|ERR!) (code )?E' "$logs/install.log")"
		exit
	fi
	[ $status -eq 0 ] || exit $status
	echo "$installed" >node_modules/.installed
fi

case $what in
test)
	step tsc npm run --silent tsc
	step lint npm run --silent lint
	step format npm run --silent format-check
	step test npm run --silent test
	step build npm run --silent build
	;;
package)
	rm -f "$logs"/livesched-*.tar.gz
	step build npm run --silent build
	# The name of the directory becomes that of the plugin in Headlamp.
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	ln -s "$PWD" "$work/livesched"
	step package npm run --silent package -- "$work/livesched" "$logs"
	ls "$logs"/livesched-*.tar.gz
	;;
*)
	echo "headlamp.sh: unknown command $what: test or package" >&2
	exit 2
	;;
esac
