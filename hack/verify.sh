#!/usr/bin/env bash
# Regenerates everything that is generated, and fails when something changed by that: what is checked in was out of date.
# Also checks that go.mod files are tidy, that links in the documentation resolve, that it lists every package, that the
# threat model names tests that exist, that the modules which draw charts, test the Helm chart and test alerts pass their
# tests, that every kustomization builds and that `make undeploy` keeps the CRDs. KUSTOMIZE names the kustomize to use.
set -euo pipefail
cd "$(dirname "$0")/.."

generated=(api/v1alpha1/zz_generated.deepcopy.go config/crd/bases config/rbac/role.yaml docs/reference/api.md
	charts/livesched/files charts/livesched/README.md)

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
for path in "${generated[@]}"; do
	mkdir -p "$before/$(dirname "$path")"
	[ ! -e "$path" ] || cp -r "$path" "$before/$path"
done

make --no-print-directory generate manifests docs chart

stale=0
for path in "${generated[@]}"; do
	diff -ruN "$before/$path" "$path" || stale=1
done
if [ $stale -ne 0 ]; then
	echo "verify: generated files were out of date; they are not any more: check them in" >&2
	exit 1
fi

# `make test-skew` checks the modules of other versions of Kubernetes, so that nobody else downloads what they require.
for module in . hack/bench/plot hack/controlplane/etcd hack/controlplane/kubernetes hack/controlplane/kwok hack/release hack/release/chart hack/release/monitoring hack/tools hack/tools/golangci-lint hack/tools/govulncheck hack/tools/helm-docs test/ui test/world; do
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

# `go test ./...` does not see the tests of other modules.
go test -C hack/bench/plot ./...
go test -C hack/release/chart -short ./...
go test -C hack/release/monitoring ./...

for dir in config/*/; do
	# A component is built as part of what it is added to.
	if [ -e "$dir/kustomization.yaml" ] && ! grep -q '^kind: Component$' "$dir/kustomization.yaml"; then
		"$KUSTOMIZE" build "$dir" >/dev/null
	fi
done

# `make undeploy` deletes everything but the custom resource definitions. This kubectl shows what it would delete.
mkdir "$before/path"
printf '#!/bin/sh\ncat\n' >"$before/path/kubectl"
chmod +x "$before/path/kubectl"
if ! diff <("$KUSTOMIZE" build config/default | grep '^kind:' | grep -v CustomResourceDefinition | sort) \
	<(PATH="$before/path:$PATH" make --no-print-directory --silent undeploy | grep '^kind:' | sort); then
	echo "verify: make undeploy deletes something else than all objects of config/default but the definitions" >&2
	exit 1
fi
echo "verify: generated files, go.mod files, links and config/ are up to date"
