# make runs no command while it parses this file: each variable is plain text, and each command is in a recipe.

export CGO_ENABLED = 0
export GOFLAGS = -trimpath -buildvcs=false

SEED = hack/seed/run.sh
# Image archives or references that replace the seed's images. WRAPPER and SIDECAR are for etcd 3.4, the others for etcd 3.5.
IMAGES = $(if $(WRAPPER),--wrapper='$(WRAPPER)') $(if $(SIDECAR),--sidecar='$(SIDECAR)') $(if $(WRAPPER_NEXT),--wrapper-next='$(WRAPPER_NEXT)') $(if $(SIDECAR_NEXT),--sidecar-next='$(SIDECAR_NEXT)')
TEST = hack/testrun/run.sh
LINT = go tool -modfile=$(CURDIR)/hack/tools/go.mod golangci-lint
# Without shellcheck and pyflakes, which not every machine has. The result therefore does not depend on the machine.
ACTIONLINT = go tool -modfile=$(CURDIR)/hack/actionlint/go.mod actionlint -shellcheck= -pyflakes=
# Modules of this repository that the linters check.
LINTED = . pkg/apis/druid cmd/etcd-helper hack/seed hack/seed/modules/cluster hack/seed/modules/etcd-wrapper/wrapper hack/seed/modules/etcd-wrapper/etcd34 hack/seed/modules/etcd-wrapper/etcd35 hack/seed/modules/pause test/consumer test/linearizability test/rules

.DEFAULT_GOAL = help

.PHONY: help
help: ## Print this list of targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A prerequisite of most targets. No file has this name, so that make runs the recipe each time.
needs-go:
	@command -v go >/dev/null || { echo "Go is missing: install $$(sed -n 's/^go /Go /p' go.mod) or newer and add it to your PATH, see https://go.dev/dl" >&2; exit 1; }

up down gardener-up gardener-down kind-up kind-down seed-status test test-all test-unit test-integration test-e2e test-gardener test-long test-soak bench test-update-golden generate format tidy check check-generate check-vulnerabilities build release image deploy: needs-go

##@ Run

.PHONY: up
up: ## Start a local seed with the operator and an example Etcd; build missing programs first
	@$(SEED) up $(IMAGES)

.PHONY: down
down: ## Stop the local seed and remove its processes, networks and data
	@$(SEED) down

.PHONY: seed-status
seed-status: ## Show the processes and nodes of the local seed
	@$(SEED) status

.PHONY: gardener-up
gardener-up: ## Start a garden and a seed with the programs of Gardener, and a Shoot on its Etcds; build missing programs first
	@$(SEED) shoots up $(IMAGES)

.PHONY: gardener-down
gardener-down: ## Stop what `make gardener-up` has started, and remove its data; the local seed is not affected
	@$(SEED) shoots down

.PHONY: kind-up
kind-up: ## Create a cluster with kind on a container engine, and install the operator with published images of etcd
	@$(SEED) kind-up

.PHONY: kind-down
kind-down: ## Delete the cluster of `make kind-up`
	@$(SEED) kind-down

##@ Test

.PHONY: test
test: ## Run the gate with its setup, in about 30 minutes on two cores; print the longest specs and `N passed, M failed`
	@$(TEST)

.PHONY: test-all
test-all: ## Run the gate and all other scenarios, in about 110 minutes on two cores
	@$(TEST) all

.PHONY: test-unit
test-unit: ## Run the tests that need only Go
	@$(TEST) unit

.PHONY: test-integration
test-integration: ## Run the controllers against a kube-apiserver
	@$(TEST) integration

.PHONY: test-e2e
test-e2e: ## Run all end-to-end tests on the local seed, or on the cluster of KUBECONFIG
	@$(TEST) e2e

.PHONY: test-gardener
test-gardener: ## Run the tests with Gardener's own programs; other clusters of this machine must be down
	@$(TEST) gardener

.PHONY: test-long
test-long: ## Run long tests: other random seeds, all versions of etcd, more repetitions; for hours
	@$(TEST) long

.PHONY: test-soak
test-soak: ## Check histories of concurrent clients for SOAK_DURATION (4h), while the operator and members are killed
	@$(TEST) soak

# SIZES, FLEETS and OUT select what is measured and the directory of the results.
.PHONY: bench
bench: ## Measure the operator with 300, 1,000 and 3,000 Etcds; `make test-all` runs a small form
	@hack/bench/run.sh

.PHONY: test-update-golden
test-update-golden: ## Update the golden files; review the diff before you commit it
	@hack/update-golden.sh

##@ Develop

.PHONY: generate
generate: ## Generate deepcopy functions, CRDs, files of the chart and the API reference
	@hack/generate.sh

.PHONY: format
format: ## Format all Go files and sort their imports
	@for module in $(LINTED); do (cd $$module && $(LINT) fmt --config $(CURDIR)/.golangci.yaml) || exit 1; done

.PHONY: tidy
tidy: ## Run `go mod tidy` in all modules
	@hack/for-each-module.sh go mod tidy

##@ Check

.PHONY: check
check: ## Run the linters for code, prose and workflows
	@failed=0; hack/prose.sh || failed=1; $(ACTIONLINT) || failed=1; for module in $(LINTED); do echo "Linting $$module"; (cd $$module && $(LINT) run --config $(CURDIR)/.golangci.yaml) || failed=1; done; exit $$failed

.PHONY: check-generate
check-generate: ## Fail if `make generate` would change a file
	@hack/check-generate.sh

# Not part of check or test, since it needs the internet. VULNDB is the URL of a copy of the database.
.PHONY: check-vulnerabilities
check-vulnerabilities: ## Search the delivered programs for known vulnerabilities (govulncheck); part of a release, needs the internet
	@go tool -modfile=$(CURDIR)/hack/tools/go.mod govulncheck $(if $(VULNDB),-db=$(VULNDB)) ./cmd/...
	@cd cmd/etcd-helper && go tool -modfile=$(CURDIR)/hack/tools/go.mod govulncheck $(if $(VULNDB),-db=$(VULNDB)) ./...

##@ Build

.PHONY: build
build: ## Build the operator, etcd-helper and kubectl-etcd into bin/
	@hack/build.sh -o bin/ ./cmd/...
	@hack/build.sh -C cmd/etcd-helper -o $(CURDIR)/bin/ .

.PHONY: release
release: ## Build the files of a release into dist/: kubectl-etcd for six platforms, chart, SBOMs, krew manifest, checksums
	@go run ./hack/release

.PHONY: image
image: ## Build the operator's image with Go only, as an archive in bin/ for docker, podman or skopeo
	@$(SEED) image

.PHONY: docker-images
docker-images: ## Build the operator's image from the Dockerfile with docker, podman or buildah
	@hack/docker-images.sh

.PHONY: deploy
deploy: ## Rebuild the operator and deploy it to the local seed
	@$(SEED) deploy $(IMAGES)

.PHONY: clean
clean: ## Remove build output from the work tree
	@rm -rf bin dist
