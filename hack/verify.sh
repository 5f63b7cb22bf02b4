#!/usr/bin/env bash
# Regenerates everything that is generated, and fails when something changed by that: what is checked in was out of date.
# Also checks that go.mod files are tidy, that links in the documentation resolve, that it lists every package, that the
# threat model names tests that exist, that the module which draws charts passes its tests and that every kustomization
# builds. KUSTOMIZE names the kustomize to use.
set -euo pipefail
cd "$(dirname "$0")/.."

generated=(api/v1alpha1/zz_generated.deepcopy.go config/crd/bases config/rbac/role.yaml docs/reference/api.md)

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
for path in "${generated[@]}"; do
	mkdir -p "$before/$(dirname "$path")"
	[ ! -e "$path" ] || cp -r "$path" "$before/$path"
done

make --no-print-directory generate manifests docs

stale=0
for path in "${generated[@]}"; do
	diff -ruN "$before/$path" "$path" || stale=1
done
if [ $stale -ne 0 ]; then
	echo "verify: generated files were out of date; they are not any more: check them in" >&2
	exit 1
fi

for module in . hack/bench/plot hack/controlplane/etcd hack/controlplane/kubernetes hack/controlplane/kwok hack/release hack/tools hack/tools/golangci-lint hack/tools/govulncheck; do
	if ! go mod tidy -C "$module" -diff; then
		echo "verify: $module/go.mod is not tidy: run \`go mod tidy\` there" >&2
		exit 1
	fi
done

hack/links.sh
hack/threatmodel.sh
for package in $(go list ./...); do
	if ! grep -qF "| \`${package#github.com/livesched/livesched/}\` |" docs/development.md; then
		echo "verify: docs/development.md does not list the package $package" >&2
		exit 1
	fi
done

# `go test ./...` does not see the tests of another module.
go test -C hack/bench/plot ./...

for dir in config/*/; do
	# A component is built as part of what it is added to.
	if [ -e "$dir/kustomization.yaml" ] && ! grep -q '^kind: Component$' "$dir/kustomization.yaml"; then
		"$KUSTOMIZE" build "$dir" >/dev/null
	fi
done
echo "verify: generated files, go.mod files, links and config/ are up to date"
