# `make help` lists what there is. Everything that is built or downloaded goes to bin/ and .sandbox/ or to Go's own caches.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Where push pushes the image to, and what deploy runs, such as registry.example.com/livesched:v1.0.0.
IMAGE ?= livesched:latest
# What to build the image for.
PLATFORMS ?= linux/amd64,linux/arm64
# A file with the key that push and release sign with; empty: they sign nothing. docs/release.md says which kinds there are.
KEY ?=
# What deploy applies: config/with-webhook also validates at kubectl apply.
CONFIG ?= config/default
# Nodes of the quickstart, whether it gives its tour (TOUR=0: only the cluster), and whether it ends after it (EXIT=1).
NODES ?= 100
TOUR ?=
EXIT ?=
# Time for each fuzz target, and what to benchmark.
FUZZTIME ?= 20s
BENCH ?= .
BENCH_PACKAGES ?= ./...
# How long to churn, and what to draw from: a run logs its seed.
SOAK ?= 10m
SEED ?=
# For how many minutes simulate begins to simulate clusters, and how many it simulates at most; 0: as many as it can.
MINUTES ?=
WORLDS ?= $(if $(MINUTES),0,10)
# The address that `make site` builds the documentation site for.
SITE_URL ?= /
# UPDATE=1 writes the outputs of the tutorials instead of comparing them.
UPDATE ?=
# The commit whose livesched is the second version in the soak; empty: there is one version.
PREVIOUS ?= HEAD^
# How many reloads the endurance test makes.
RELOADS ?= 1000
# Flags for `make bench-...`, such as --nodes, --kinds and --out; `go run ./hack/bench throughput --help` lists them.
BENCH_FLAGS ?=
# What bench-kubernetes runs: labels that a workload has or, after a minus, has not, and a regular expression for
# Case/Workload.
LABELS ?= performance
CASES ?=
# What to test, and more flags: of `go test`, such as -run or -v, or of the tests, such as -ginkgo.focus. The flags follow
# the packages: after a flag that it does not know, go test takes packages for arguments of the tests. The suite that takes
# longest begins first.
PACKAGES ?= ./test/e2e/controllers ./...
TEST_FLAGS ?=

# RACE=1 tests with the race detector, which needs a C compiler.
RACE ?=
race = $(if $(RACE),-race)
# The versions that upstream-diff compares.
FROM ?=
TO ?=
# The other versions of Kubernetes whose API servers test-skew tests with, and what it tests. The suite that takes longest
# begins first.
KUBERNETES ?= $(patsubst hack/controlplane/kubernetes-%,%,$(wildcard hack/controlplane/kubernetes-*))
SKEW_PACKAGES ?= ./test/e2e/controllers ./test/e2e/...
# How many packages are tested at the same time. API suites mostly wait; with the race detector the others need the cores.
TEST_PACKAGES_AT_ONCE ?= $(if $(RACE),3,6)

# Plugins compare the version of Kubernetes that they are part of with that of nodes and API server: a binary without
# this stamp takes itself for v0.0.0.
K8S_VERSION := $(shell sed -n 's|^.*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' go.mod)
K8S_PKG := k8s.io/component-base/version
LDFLAGS = -s -w -X github.com/livesched/livesched/internal/version.Version=$(VERSION) \
	-X $(K8S_PKG).gitVersion=$(K8S_VERSION) \
	-X $(K8S_PKG).gitMajor=$(word 1,$(subst ., ,$(K8S_VERSION:v%=%))) \
	-X $(K8S_PKG).gitMinor=$(word 2,$(subst ., ,$(K8S_VERSION:v%=%)))

# Kustomize can load Go plugins, for which the linker would keep and export all code: another 30 MB.
without_plugins := -tags kustomize_disable_go_plugin_support

# Tools are built from the modules that pin them, once for each version.
TOOLS := $(CURDIR)/bin/tools
tool_version = $(shell sed -n 's|^[[:space:]]*$(2) \(v[^ ]*\).*|\1|p' hack/tools/$(1)go.mod 2>/dev/null)
CONTROLLER_GEN := $(TOOLS)/controller-gen-$(call tool_version,,sigs.k8s.io/controller-tools)
KUSTOMIZE := $(TOOLS)/kustomize-$(call tool_version,,sigs.k8s.io/kustomize/kustomize/v5)
CRD_REF_DOCS := $(TOOLS)/crd-ref-docs-$(call tool_version,,github.com/elastic/crd-ref-docs)
GOVULNCHECK := $(TOOLS)/govulncheck-$(call tool_version,govulncheck/,golang.org/x/vuln)
HELM_DOCS := $(TOOLS)/helm-docs-$(call tool_version,helm-docs/,github.com/norwoodj/helm-docs)
HUGO := $(TOOLS)/hugo-$(call tool_version,hugo/,github.com/gohugoio/hugo)
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(call tool_version,golangci-lint/,github.com/golangci/golangci-lint/v2)

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ See it work

.PHONY: quickstart
quickstart: livesched kubectl-livesched ## A cluster on this machine and a tour of what livesched does (NODES=100; TOUR=0 for the cluster only; EXIT=1 ends after the tour).
	@go build -o bin/quickstart ./hack/sandbox
	@exec bin/quickstart -nodes=$(NODES) $(if $(filter 0,$(TOUR)),-bare) $(if $(filter-out 0,$(EXIT)),-exit)

.PHONY: quickstart-confined
quickstart-confined: kubectl-livesched ## The quickstart with livesched as user 65532 with a read-only root and no capabilities; needs bubblewrap.
	$(call release_tool,image $(built_from) -platforms linux/$$(go env GOARCH) -layout .sandbox/image)
	@bin/release-tool unpack -layout .sandbox/image -out .sandbox/rootfs
	@go build -o bin/quickstart ./hack/sandbox
	@exec bin/quickstart -nodes=$(NODES) -rootfs=.sandbox/rootfs $(if $(filter-out 0,$(EXIT)),-exit)

##@ Build

.PHONY: build
build: livesched kubectl-livesched kubectl-livesched-replay ## Build bin/livesched and the plugin of kubectl.

.PHONY: livesched
livesched: ## Build bin/livesched.
	@echo "building bin/livesched $(VERSION) for Kubernetes $(K8S_VERSION) (minutes if the Go build cache has nothing of it yet)"
	@go build -ldflags "$(LDFLAGS)" -o bin/livesched ./cmd/livesched

.PHONY: kubectl-livesched
kubectl-livesched: ## Build bin/kubectl-livesched, which is `kubectl livesched` once it is in the PATH.
	@echo "building bin/kubectl-livesched $(VERSION) for Kubernetes $(K8S_VERSION)"
	@go build $(without_plugins) -ldflags "$(LDFLAGS)" -o bin/kubectl-livesched ./cmd/kubectl-livesched

.PHONY: kubectl-livesched-replay
kubectl-livesched-replay: ## Build bin/kubectl-livesched-replay, which `kubectl livesched replay` runs.
	@echo "building bin/kubectl-livesched-replay $(VERSION) for Kubernetes $(K8S_VERSION)"
	@go build $(without_plugins) -ldflags "$(LDFLAGS)" -o bin/kubectl-livesched-replay ./cmd/kubectl-livesched-replay

.PHONY: run
run: livesched ## Run livesched here, for the cluster that KUBECONFIG names.
	bin/livesched --leader-elect=false --bind-address=127.0.0.1 --health-probe-bind-address=127.0.0.1:8081

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver, kube-controller-manager and kwok, which tests and the quickstart run.
	@go run ./hack/controlplane/build

COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
# The only time in what is released: that of the commit, so that two builds of a commit are equal.
image release quickstart-confined: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# release_tool runs hack/release, a module of its own; it builds with the flags of the linker that `make livesched` has.
release_tool = @go build -C hack/release -o $(CURDIR)/bin/release-tool . && bin/release-tool $(1)
built_from = -version '$(VERSION)' -commit '$(COMMIT)' -ldflags '$(LDFLAGS)'

.PHONY: image
image: ## Build the image for PLATFORMS, without Docker, as an OCI layout in bin/image.
	$(call release_tool,image $(built_from) -platforms '$(PLATFORMS)')

.PHONY: push
push: ## Push bin/image to IMAGE, and its signature if there is a KEY.
	$(call release_tool,push -image '$(filter-out livesched:latest,$(IMAGE))' -key '$(KEY)')

.PHONY: release
release: image $(KUSTOMIZE) ## Build bin/image and, in bin/release/VERSION, all other files of a release (VERSION, IMAGE, KEY).
	@$(KUSTOMIZE) build config/default > bin/install.yaml
	$(call release_tool,artifacts $(built_from) -image '$(filter-out livesched:latest,$(IMAGE))' -manifest bin/install.yaml -key '$(KEY)' -out 'bin/release/$(VERSION)')

# hugo runs Hugo with the theme as Go downloads it: from the proxy that Go uses, checked by hack/site/go.sum.
hugo = @go mod download -C hack/site && \
	HUGO_MODULE_REPLACEMENTS="$(theme) -> $$(go list -C hack/site -m -f '{{.Dir}}' $(theme))" \
	$(HUGO) $(1) --source hack/site --noBuildLock
theme = github.com/imfing/hextra

.PHONY: site
site: $(HUGO) ## Build the documentation site in bin/site (SITE_URL).
	$(call hugo,build --cleanDestinationDir --baseURL '$(SITE_URL)' --destination $(CURDIR)/bin/site >/dev/null)

.PHONY: site-serve
site-serve: $(HUGO) ## Serve the documentation site at http://localhost:1313, and follow changes.
	$(call hugo,server --renderToMemory)

.PHONY: headlamp
headlamp: ## Build the Headlamp plugin, bin/headlamp/livesched-*.tar.gz; needs Node.js and, once, npm's registry.
	@hack/ui/headlamp.sh package headlamp

.PHONY: clean
clean: ## Remove what was built, and the quickstart's data.
	rm -rf bin .sandbox cover.out ui/headlamp/node_modules ui/headlamp/dist

##@ Change

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate deep copies.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate CRDs and RBAC.
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:dir=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=livesched paths=./cmd/... paths=./controllers/... paths=./internal/... output:rbac:dir=config/rbac

.PHONY: docs
docs: $(CRD_REF_DOCS) ## Generate the API reference, docs/reference/api.md.
	$(CRD_REF_DOCS) --log-level=ERROR --source-path=api/v1alpha1 --config=docs/.crd-ref-docs/config.yaml --templates-dir=docs/.crd-ref-docs --renderer=markdown --output-path=docs/reference/api.md

.PHONY: chart
chart: $(HELM_DOCS) ## Copy what charts/livesched has of config/, and generate its README.
	@rm -rf charts/livesched/files
	@set -e; for dir in crd/bases flowcontrol prometheus rbac tenancy visibility-api webhook; do \
		mkdir -p charts/livesched/files/$$dir; \
		cp config/$$dir/*.yaml charts/livesched/files/$$dir; \
		rm -f charts/livesched/files/$$dir/kustomization.yaml charts/livesched/files/$$dir/manager_patch.yaml; \
	done
	$(HELM_DOCS) --log-level=warning --chart-search-root=charts --sort-values-order=file

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go code.
	$(GOLANGCI_LINT) fmt ./...

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

##@ Check

# The tests and their API servers have memory to spare, and share few cores: they collect garbage less often.
test test-unit test-skew: export GOGC ?= 400

.PHONY: test
test: ## Run all tests, on a control plane that is built if it is missing (RACE=1, PACKAGES, TEST_FLAGS).
	@assets="$$(go run ./hack/controlplane/build)" && export KUBEBUILDER_ASSETS="$$assets" && \
	go test $(race) -p $(TEST_PACKAGES_AT_ONCE) -timeout 30m $(PACKAGES) $(TEST_FLAGS)
	$(if $(filter ./...,$(PACKAGES)),$(MAKE) --no-print-directory test-world)

# Simulated clusters change what goroutines wait for, in Go's runtime.
world_flags = -ldflags=-checklinkname=0

.PHONY: test-world
test-world: ## Test the simulation of clusters, and one cluster without faults, on a control plane that is built if it is missing.
	@assets="$$(go run ./hack/controlplane/build)" && export KUBEBUILDER_ASSETS="$$assets" && \
	go test -C test/world $(world_flags) ./...

.PHONY: worlds
worlds:
	@mkdir -p bin
	@go build -C test/world -o $(CURDIR)/bin/replay ./replay
	@go build -C test/world -o $(CURDIR)/bin/worlds ./simulate
	@go test -C test/world $(world_flags) -c -o $(CURDIR)/bin/world.test .

.PHONY: simulate
simulate: worlds ## Simulate WORLDS clusters, or for MINUTES, with faults, from SEED on; one that fails is shrunk (TEST_FLAGS=-help).
	@bin/worlds -seed $(or $(SEED),1) -worlds $(WORLDS) -minutes $(or $(MINUTES),0) $(TEST_FLAGS) \
		bin/replay bin/world.test

.PHONY: simulate-known
simulate-known: worlds ## Simulate the clusters that were made for the mistakes of `make simulate-mutants`, or found them, without the mistakes.
	@bin/worlds -plans test/world/plans $(TEST_FLAGS) bin/replay bin/world.test

.PHONY: simulate-mutants
simulate-mutants: ## Make mistakes in livesched, one at a time, and simulate clusters until one finds it (TEST_FLAGS='-only NAME -worlds N').
	@mkdir -p bin
	@go build -C test/world -o $(CURDIR)/bin/replay ./replay
	@cd test/world && go run ./mutants $(TEST_FLAGS) $(CURDIR)/bin/replay

# Packages whose tests start no control plane.
unit_packages = $(shell go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}} ' ./... | \
	grep -vE '/test/(controlplane|testcluster|e2e/framework) ' | cut -d' ' -f1)

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane (RACE=1, TEST_FLAGS).
	go test $(race) $(unit_packages) $(TEST_FLAGS)

.PHONY: test-skew
test-skew: ## Run the suites of test/e2e on older and newer API servers, which are built first: minutes each (KUBERNETES=1.35 takes one, SKEW_PACKAGES, RACE=1, TEST_FLAGS).
	@set -e; for version in $(KUBERNETES); do \
		go mod tidy -C hack/controlplane/kubernetes-$$version -diff; \
		assets="$$(go run ./hack/controlplane/build -kubernetes $$version)"; \
		echo "testing on the API server of Kubernetes $$version"; \
		KUBEBUILDER_ASSETS="$$assets" go test $(race) -p $(TEST_PACKAGES_AT_ONCE) -timeout 30m $(SKEW_PACKAGES) $(TEST_FLAGS); \
	done

.PHONY: soak
soak: $(if $(PREVIOUS),soak-previous) ## Let two clusters churn at random for SOAK each, and see that nothing is lost (SEED repeats a run; CHURN_LOG names a log file; TEST_FLAGS, PREVIOUS).
	@assets="$$(go run ./hack/controlplane/build)" && export KUBEBUILDER_ASSETS="$$assets" && \
	CHURN_LENGTH=$(SOAK) CHURN_SEED=$(SEED) CHURN_PREVIOUS=$(if $(PREVIOUS),$(CURDIR)/bin/previous/livesched) \
	go test -race -count=1 -timeout 0 -v ./test/e2e/churn $(TEST_FLAGS)

.PHONY: soak-previous
soak-previous:
	@echo "building livesched of $(PREVIOUS), the second version in the soak"
	@rm -rf bin/previous && mkdir -p bin/previous/source && git archive $(PREVIOUS) | tar -x -C bin/previous/source && \
	go build -C bin/previous/source -race -ldflags "$(subst $(VERSION),$(PREVIOUS),$(LDFLAGS))" -o ../livesched ./cmd/livesched && rm -rf bin/previous/source

.PHONY: endurance
endurance: ## Reload 20 profiles RELOADS times while five pods for each reload are scheduled, and see that nothing is lost or left.
	@assets="$$(go run ./hack/controlplane/build)" && export KUBEBUILDER_ASSETS="$$assets" && \
	RELOADS=$(RELOADS) go test -race -count=1 -timeout 60m -v ./test/e2e/profiles -ginkgo.v -ginkgo.focus 'Reloads under load'

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run the linters.
	$(GOLANGCI_LINT) run ./...
	cd test/world && $(GOLANGCI_LINT) run ./...

.PHONY: gosec
gosec: $(GOLANGCI_LINT) ## Look for insecure code; .golangci.yml says what is excluded, and why.
	$(GOLANGCI_LINT) run --enable-only gosec --tests=false ./api/... ./cmd/... ./controllers/... ./internal/...

.PHONY: verify
verify: $(CONTROLLER_GEN) $(CRD_REF_DOCS) $(HELM_DOCS) $(KUSTOMIZE) ## Check that generated files and go.mod files are up to date and that config/ builds.
	@KUSTOMIZE=$(KUSTOMIZE) hack/verify.sh

.PHONY: upstream-diff
upstream-diff: ## What has changed between two versions of Kubernetes, for livesched (FROM=v1.37.2 TO=v1.38.0).
	@go run ./hack/upstreamdiff -from "$(FROM)" -to "$(TO)"

.PHONY: upstream-sources
upstream-sources: ## Confirm that the code that follows Kubernetes has been compared with the version in go.mod.
	@go run ./hack/upstreamdiff -confirm

.PHONY: test-release
test-release: ## Test hack/release, a module of its own that `make test` does not see.
	go test -C hack/release ./...

.PHONY: test-chart
test-chart: ## Test charts/livesched, on a control plane too (TEST_FLAGS=-short leaves that out).
	@assets="$$(go run ./hack/controlplane/build)" && export KUBEBUILDER_ASSETS="$$assets" && \
	go test -C hack/release/chart ./... $(TEST_FLAGS)

# An address with a path is the harder case. `make verify` leaves hack/tools/hugo out, as that takes long.
.PHONY: test-tutorials
test-tutorials: livesched kubectl-livesched ## Follow the tutorials, and compare what their commands print (UPDATE=1 writes it into them); needs kubectl.
	@go build -o bin/quickstart ./hack/sandbox
	@TUTORIALS=1 UPDATE=$(filter-out 0,$(UPDATE)) go test -count=1 -v -timeout 30m ./test/tutorials

.PHONY: test-site
test-site: $(HUGO) ## Build the documentation site, and check its links and its search.
	$(call hugo,build --cleanDestinationDir --baseURL https://example.org/livesched/ --destination $(CURDIR)/bin/site-test >/dev/null)
	@SITE=$(CURDIR)/bin/site-test SITE_BASE=/livesched/ go test -count=1 ./test/site
	@go mod tidy -C hack/tools/hugo -diff

.PHONY: test-ui
test-ui: ## Test the dashboard's pages in a browser, and write screenshots to bin/ui; needs Chromium (CHROMIUM names it), and npm once (TEST_FLAGS).
	@test -x "$${CHROMIUM:-/usr/bin/chromium}" || { echo "test-ui: there is no Chromium: install it, or set CHROMIUM to its path"; exit 1; }
	@test -e bin/ui/axe.min.js || hack/ui/assets.sh axe || echo "test-ui: there is no axe-core, because npm could not fetch it: accessibility is not tested"
	go test -C test/ui -count=1 ./... $(TEST_FLAGS)

.PHONY: test-headlamp
test-headlamp: ## Test the Headlamp plugin; needs Node.js, and npm's registry once. No other target needs these.
	@hack/ui/headlamp.sh test test-headlamp

.PHONY: verify-image
verify-image: ## Build the image twice, in different directories, and compare the digests (PLATFORMS).
	@PLATFORMS='$(PLATFORMS)' hack/verify-image.sh

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Look for known vulnerabilities in code that is reached; needs the database at https://vuln.go.dev.
	$(GOVULNCHECK) ./cmd/...

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME.
	@FUZZTIME=$(FUZZTIME) hack/fuzz.sh

##@ Measure (figures go to bin/benchmarks; docs/compare/performance.md says how long each takes)

.PHONY: bench
bench: bench-decision bench-throughput bench-reload bench-scale ## All of the following but for bench-fragmentation, bench-kubernetes and bench-parts.

# bench_run runs a subcommand of hack/bench, with the version of Kubernetes that its plugins are to have.
bench_run = @assets="$$(go run ./hack/controlplane/build -scheduler)" && export KUBEBUILDER_ASSETS="$$assets" && \
	go run -ldflags "$(LDFLAGS)" ./hack/bench $(1) $(BENCH_FLAGS)

.PHONY: bench-decision
bench-decision: ## What a decision costs, beside kube-scheduler's, without an API server (BENCH_FLAGS).
	$(call bench_run,decision)

.PHONY: bench-throughput
bench-throughput: livesched ## Pods a second, end to end, beside kube-scheduler and a client that only binds (BENCH_FLAGS).
	$(call bench_run,throughput)

.PHONY: bench-reload
bench-reload: ## Reloads: apply to first decision, standstill, and pods a second with a reload every second (BENCH_FLAGS).
	$(call bench_run,reload)

.PHONY: bench-scale
bench-scale: ## Large clusters, simulated: memory, start, decisions, changes of nodes (BENCH_FLAGS).
	$(call bench_run,scale)

.PHONY: bench-fragmentation
bench-fragmentation: ## How many GPUs are allocated when pods share them, by policy, without an API server (BENCH_FLAGS).
	$(call bench_run,fragmentation)

.PHONY: bench-kubernetes
bench-kubernetes: livesched ## Kubernetes' own scheduler benchmark; a second run continues the first (LABELS, CASES, BENCH_FLAGS).
	$(call bench_run,kubernetes --labels='$(LABELS)' --cases='$(CASES)')

.PHONY: bench-parts
bench-parts: ## The Go benchmarks of single packages (BENCH, BENCH_PACKAGES).
	@assets="$$(go run ./hack/controlplane/build)" && export KUBEBUILDER_ASSETS="$$assets" && \
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m $(BENCH_PACKAGES)

.PHONY: bench-charts
bench-charts: ## Draw the charts of the documentation from the JSON files in docs/benchmarks.
	@set -e; for benchmark in decision throughput reload scale kubernetes; do \
		files="$$(find docs/benchmarks -name "$$benchmark*.json" | sort)"; \
		if [ -n "$$files" ]; then go run ./hack/bench plot $$files; fi; \
	done; \
	go run ./hack/bench plot --dir docs/images docs/benchmarks/rollout.json

##@ Deploy (with kubectl, to the cluster that KUBECONFIG names)

.PHONY: install
install: $(KUSTOMIZE) ## Install the CRDs.
	$(KUSTOMIZE) build config/crd | kubectl apply --server-side -f -

.PHONY: uninstall
uninstall: $(KUSTOMIZE) ## Remove the CRDs, and with them every profile and policy.
	$(KUSTOMIZE) build config/crd | kubectl delete --ignore-not-found -f -

.PHONY: deploy
deploy: $(KUSTOMIZE) ## Install the CRDs and run IMAGE.
	$(KUSTOMIZE) build $(CONFIG) | sed 's|image: livesched:latest|image: $(IMAGE)|' | kubectl apply --server-side -f -

.PHONY: undeploy
undeploy: $(KUSTOMIZE) ## Remove livesched, but keep the CRDs, and so every profile and policy.
	$(KUSTOMIZE) build $(CONFIG) | $(KUSTOMIZE) cfg grep --annotate=false --invert-match kind=CustomResourceDefinition | kubectl delete --ignore-not-found -f -

.PHONY: purge
purge: $(KUSTOMIZE) ## Remove livesched and the CRDs, and with them every profile and policy.
	$(KUSTOMIZE) build $(CONFIG) | kubectl delete --ignore-not-found -f -

# Tools. A new version has a new name, so that the old one is never taken for it.

$(CONTROLLER_GEN):
	@$(call build_tool,hack/tools,sigs.k8s.io/controller-tools/cmd/controller-gen)
$(KUSTOMIZE):
	@$(call build_tool,hack/tools,sigs.k8s.io/kustomize/kustomize/v5)
$(CRD_REF_DOCS):
	@$(call build_tool,hack/tools,github.com/elastic/crd-ref-docs)
$(HELM_DOCS):
	@$(call build_tool,hack/tools/helm-docs,github.com/norwoodj/helm-docs/cmd/helm-docs)
$(HUGO):
	@$(call build_tool,hack/tools/hugo,github.com/gohugoio/hugo)
$(GOLANGCI_LINT):
	@$(call build_tool,hack/tools/golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
$(GOVULNCHECK):
	@$(call build_tool,hack/tools/govulncheck,golang.org/x/vuln/cmd/govulncheck)

# build_tool builds a package of a module under hack/tools into the target.
define build_tool
echo "building $(notdir $@) (once)"; go build -C $(1) -o $@ $(2)
endef
