# Nothing runs while this file is read: every variable is plain text, every command stands in a recipe.

export CGO_ENABLED = 0
export GOFLAGS = -trimpath -buildvcs=false

# The compiler of the seed needs less time with more memory. The seed removes the variable before it starts programs.
SEED = GOGC=400 go run -C hack/seed .
TEST = hack/testrun/run.sh
LINT = go tool -modfile=$(CURDIR)/hack/tools/go.mod golangci-lint
# The modules of this repository with Go code.
LINTED = . hack/seed hack/seed/modules/cluster hack/seed/modules/etcd-wrapper hack/seed/modules/pause test/rules

.DEFAULT_GOAL = help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Nearly every other target stands on it. No file has this name, so make runs it each time.
needs-go:
	@command -v go >/dev/null || { echo "Go is missing: install $$(sed -n 's/^go /Go /p' go.mod) or newer and put it into your PATH, see https://go.dev/dl" >&2; exit 1; }

up down seed-status test test-unit test-integration test-e2e test-long test-update-golden generate format tidy check check-generate build image deploy: needs-go

##@ Run it

.PHONY: up
up: ## Start a local seed with the operator and an example Etcd (builds what is missing)
	@$(SEED) up

.PHONY: down
down: ## Stop the local seed and leave nothing behind
	@$(SEED) down

.PHONY: seed-status
seed-status: ## Say what of the local seed runs
	@$(SEED) status

##@ Test it

.PHONY: test
test: ## Run every test, set-up included; ends with the time of each suite and `N passed, M failed`
	@$(TEST)

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go
	@$(TEST) unit

.PHONY: test-integration
test-integration: ## Run the controllers against a kube-apiserver
	@$(TEST) integration

.PHONY: test-e2e
test-e2e: ## Run the end-to-end tests on the local seed
	@$(TEST) e2e

.PHONY: test-long
test-long: ## Run other random seeds and long repetitions; not part of `make test`
	@$(TEST) long

.PHONY: test-update-golden
test-update-golden: ## Write the golden files; review the difference before you commit it
	@hack/update-golden.sh

##@ Change it

.PHONY: generate
generate: ## Write deepcopy functions, CRDs, mocks, the chart's copies and the API reference
	@hack/generate.sh

.PHONY: format
format: ## Format all Go files and sort their imports
	@for module in $(LINTED); do (cd $$module && $(LINT) fmt --config $(CURDIR)/.golangci.yaml) || exit 1; done

.PHONY: tidy
tidy: ## Tidy the modules
	@hack/for-each-module.sh go mod tidy

##@ Check it

.PHONY: check
check: ## Run the linters of code and of prose
	@failed=0; go run ./hack/words || failed=1; hack/prose.sh || failed=1; for module in $(LINTED); do echo "Linting $$module"; (cd $$module && $(LINT) run --config $(CURDIR)/.golangci.yaml) || failed=1; done; exit $$failed

.PHONY: check-generate
check-generate: ## Fail if `make generate` would change a file
	@hack/check-generate.sh

##@ Build it

.PHONY: build
build: ## Build the operator and kubectl-etcd into bin/
	@hack/build.sh -o bin/ ./cmd/...

.PHONY: image
image: ## Pack the operator's image into bin/, from Go alone, as an archive that docker, podman and skopeo load
	@$(SEED) image

.PHONY: docker-images
docker-images: ## Build the operator's image from the Dockerfile, by docker, podman or buildah
	@hack/docker-images.sh

.PHONY: deploy
deploy: ## Build the operator again and roll it out on the local seed
	@$(SEED) deploy

.PHONY: clean
clean: ## Remove what was built into the tree
	@rm -rf bin dist
