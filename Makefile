# lancemaster needs Go and make, nothing else, to build, test and run the demo.
# The Thrift compiler is wanted only by `make generate`, `make generate-check` and `make interop`, which
# wants Python's Thrift library as well.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

GO ?= go
MODULE := github.com/lancemaster/lancemaster
BIN := $(CURDIR)/bin

# Time that `make fuzz` gives to each fuzz target, as go test -fuzztime takes it.
FUZZTIME ?= 10s
# What `make bench` runs, and how often.
BENCH ?= .
BENCHCOUNT ?= 1
# The fault suites: the choices of a run (empty: new ones, which it prints), and how long make soak goes on.
SEED ?=
SOAK ?= 30m
# How many leaders make bench-failover kills.
RUNS ?= 20

# The version is stamped when git can tell it; a source archive without history falls back to
# what the Go tool recorded in the binary.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := $(if $(VERSION),-X $(MODULE)/internal/config.Version=$(VERSION))

GOLANGCI := $(BIN)/tools/golangci-lint

.PHONY: help
help: ## Show this list
	@printf 'usage: make TARGET\n\n'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build bin/lancemaster and bin/lanceworker-stub, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o '$(BIN)/' ./cmd/lancemaster ./cmd/lanceworker-stub

.PHONY: demo
demo: build ## See one index job live and end, on one node, in under a minute
	@bash deploy/demo/demo.sh

.PHONY: demo-outcomes
demo-outcomes: build ## See how jobs end and what each end holds, with a simulated backend
	@bash deploy/demo/outcomes.sh

# Tests that run beside others wait for elections and the disk much more than they work: -parallel.
.PHONY: test
test: ## Run the unit tests: no network, no root
	$(GO) test -parallel 4 -timeout 4m ./...

# What the tests of these do happens in long bubbles of testing/synctest with many goroutines. Go 1.26 gives all
# timers of a bubble one context of the race detector, which then crashes when two processors fire timers of one
# bubble at once (golang/go#78156). On one processor it finds the same races: it goes by what happens before what.
BUBBLES := $(addprefix $(MODULE)/internal/,cluster dispatch leader testcluster)

.PHONY: race
race: ## Run the unit tests under the race detector (wants a C compiler)
	CGO_ENABLED=1 $(GO) test -race -parallel 4 -timeout 10m $$($(GO) list ./... | grep -vxF $(BUBBLES:%=-e %))
	CGO_ENABLED=1 $(GO) test -exec 'env GOMAXPROCS=1' -race -parallel 4 -timeout 10m $(BUBBLES)

.PHONY: lint
lint: fmt-check vet golangci generate-check-here ## gofmt, go vet, golangci-lint, generated code

.PHONY: fmt-check
fmt-check:
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then \
		printf 'not formatted; run gofmt -w on:\n%s\n' "$$unformatted" >&2; exit 1; \
	fi

# The module's packages; the programs of .ci are named, since ./... leaves out folders that begin with a dot.
PACKAGES := ./... $(patsubst %/main.go,./%,$(wildcard .ci/*/main.go))

.PHONY: vet
vet:
	$(GO) vet $(PACKAGES)
	$(GO) vet -tags e2e ./...
	$(GO) vet -tags faults ./internal/faults/
	$(GO) vet -tags 'faults nextlevel' ./internal/faults/

.PHONY: golangci
golangci: $(GOLANGCI)
	$(GOLANGCI) run $(PACKAGES)
	cd .ci/doristest && '$(GOLANGCI)' run ./...
	cd .ci/k8stest && '$(GOLANGCI)' run ./...

# The linter is built from the module that pins it, so that the product's go.sum stays small and
# every machine runs the same version.
$(GOLANGCI): .ci/tools/go.mod .ci/tools/go.sum
	GOOS= GOARCH= $(GO) -C .ci/tools build -o '$@' github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (default 10s)
	@GO='$(GO)' bash .ci/fuzz.sh '$(FUZZTIME)'

.PHONY: generate
generate: ## Regenerate gen-go/ from idl/ (wants thrift 0.17.0)
	@GO='$(GO)' bash .ci/generate.sh write

.PHONY: generate-check
generate-check: ## Fail if gen-go/ is not what idl/ generates (wants thrift 0.17.0)
	@GO='$(GO)' bash .ci/generate.sh check

# In lint the check is left out, and said to be, on a developer's machine without the compiler.
.PHONY: generate-check-here
generate-check-here:
	@if [ -z "$${CI:-}" ] && ! bash .ci/generate.sh have; then \
		echo 'lint: SKIPPED the generated-code check: thrift 0.17.0 is not installed here; CI runs it'; \
	else \
		GO='$(GO)' bash .ci/generate.sh check; \
	fi

.PHONY: e2e
e2e: build ## Run the end-to-end tests with the real binaries
	@names=$$($(GO) test -tags e2e -list '^Test' ./internal/e2e/...); \
	grep -q '^Test' <<<"$$names" || { echo 'e2e: no test found in internal/e2e' >&2; exit 1; }
	LANCEMASTER_BIN='$(BIN)' $(GO) test -tags e2e -count=1 -timeout 10m ./internal/e2e/...

# The programs that the fault suite runs: this build, and one that is a feature level ahead. The tests
# open state files of both, so they are of the next level too.
.PHONY: faults-programs
faults-programs: build
	CGO_ENABLED=0 $(GO) build -trimpath -tags nextlevel -ldflags '-X $(MODULE)/internal/config.Version=$(VERSION)+nextlevel' \
		-o '$(BIN)/nextlevel/' ./cmd/lancemaster

# run_faults runs the tests of internal/faults whose names a pattern matches, within a time.
run_faults = LANCEMASTER_BIN='$(BIN)' LANCEMASTER_FAULTS_SEED='$(SEED)' $(3) \
	$(GO) test -tags 'faults nextlevel' -count=1 -v -parallel 3 -timeout $(2) -run '$(1)' ./internal/faults/

.PHONY: faults
faults: faults-programs ## Run real masters under faults, a short mix (SEED=n repeats its choices)
	$(call run_faults,^Test(Mix|Life|Disk),12m)

.PHONY: soak
soak: faults-programs ## Run real masters under faults, each random mix for SOAK (default 30m)
	$(call run_faults,^Test(Mix|Life|Disk),24h,LANCEMASTER_FAULTS_TIME='$(SOAK)')

# Masters and backends inside one process, on virtual time: a cluster's minute of faults takes about a second.
run_seeded = LANCEMASTER_FAULTS_SEED='$(SEED)' LANCEMASTER_FAULTS_TIME='$(1)' \
	$(GO) test -count=1 -timeout $(2) -run '^TestSeeded$$' ./internal/testcluster/

.PHONY: faults-seeded
faults-seeded: ## Run clusters in one process under faults for two minutes (SEED=n: from that seed on)
	$(call run_seeded,2m,10m)

.PHONY: soak-seeded
soak-seeded: ## Run clusters in one process under faults for SOAK (default 30m)
	$(call run_seeded,$(SOAK),24h)

faults: faults-seeded
soak: soak-seeded

.PHONY: faults-net
faults-net: faults-programs ## Cut the network between real masters (wants root, ip and nft)
	$(call run_faults,^TestNet,12m)

.PHONY: bench-failover
bench-failover: faults-programs ## Kill RUNS leaders and measure until the next one sends a job
	$(call run_faults,^TestBench,1h,LANCEMASTER_FAULTS_RUNS='$(RUNS)')

# A module of its own, since the listener it tests against needs many others.
.PHONY: doris-test
doris-test: ## Test the refresher doris against a real listener of the MySQL protocol
	$(GO) -C .ci/doristest vet ./...
	$(GO) -C .ci/doristest test -count=1 -timeout 3m ./...

.PHONY: interop
interop: build ## Test master and backend against Python's Thrift (wants python3-thrift)
	@GO='$(GO)' bash .ci/interop/run.sh

.PHONY: alerts-test
alerts-test: ## Check and test the alert rules and the dashboard (wants promtool)
	@bash .ci/alerts.sh

.PHONY: bench
bench: ## Run the benchmarks (BENCH=regexp, BENCHCOUNT=n)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) -timeout 20m ./...

.PHONY: model
model: ## Check the model of the dispatch protocol, and each of its guards (wants spin and gcc)
	@bash docs/model/run.sh all

.PHONY: model-guards
model-guards: ## Check the guards of the model with its full bounds (half an hour)
	@MODEL_FULL=1 bash docs/model/guards.sh

.PHONY: readme
readme: ## Run the commands of the README and of getting started as they stand, in a fresh clone
	@bash .ci/readme.sh

.PHONY: docs-generate
docs-generate: build ## Rewrite what the documentation takes from the programs: reference, keys, outputs
	$(GO) test ./internal/cli ./internal/stubcli -run TestTheReferenceIsCurrent -count=1 -rewrite
	$(GO) test ./internal/config -run TestTheFilesMadeFromTheKeysAreCurrent -count=1 -rewrite
	$(GO) run ./.ci/docs -rewrite docs/getting-started.md

.PHONY: docs-check
docs-check: ## Fail if the reference pages are not what the commands say, or show what does not exist
	$(GO) test ./internal/cli ./internal/stubcli -run 'TestTheReferenceIsCurrent|TestTheDocuments'
	$(GO) test ./internal/config -run 'TestTheFilesMadeFromTheKeysAreCurrent|TestDeployed'

.PHONY: man
man: ## Make the man pages and the completion scripts, in bin/share
	rm -rf '$(BIN)/share' && mkdir -p '$(BIN)/share'
	$(GO) run -ldflags '$(LDFLAGS)' ./.ci/reference '$(BIN)/share'

.PHONY: release
release: $(BIN)/tools/cyclonedx-gomod ## Make the release archives, their sums and lists of parts, in dist/
	@GO='$(GO)' VERSION='$(VERSION)' bash .ci/release.sh build dist
	@GO='$(GO)' VERSION='$(VERSION)' bash .ci/release.sh sbom dist
	@GO='$(GO)' VERSION='$(VERSION)' bash .ci/release.sh check dist

.PHONY: sbom
sbom: release ## The lists of parts (CycloneDX) of the release, dist/*.cdx.json

.PHONY: reproducible
reproducible: ## Build the release archives twice, in two folders, and compare
	@GO='$(GO)' bash .ci/release.sh reproducible

.PHONY: vuln
vuln: $(BIN)/tools/govulncheck ## Look for known vulnerabilities (wants the network)
	@bash .ci/vuln.sh '$(BIN)/tools/govulncheck'

$(BIN)/tools/cyclonedx-gomod: .ci/releasetools/go.mod .ci/releasetools/go.sum
	GOOS= GOARCH= $(GO) -C .ci/releasetools build -o '$@' github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

$(BIN)/tools/govulncheck: .ci/releasetools/go.mod .ci/releasetools/go.sum
	GOOS= GOARCH= $(GO) -C .ci/releasetools build -o '$@' golang.org/x/vuln/cmd/govulncheck

# A build that is a feature level ahead, as rolling upgrades are tested with.
.PHONY: nextlevel
nextlevel: ## Test the journal's next feature level
	$(GO) vet -tags nextlevel ./internal/... ./cmd/...
	$(GO) test -tags nextlevel -timeout 8m ./internal/job ./internal/command ./internal/store ./internal/fsm

# A module of its own, since the API's types need many others.
.PHONY: k8s-test
k8s-test: ## Hold the Kubernetes manifests and the compose file to their types
	$(GO) -C .ci/k8stest vet ./...
	$(GO) -C .ci/k8stest test -count=1 -timeout 3m ./...

# What goes into the image. The time of the files is fixed, so that equal programs make an equal image.
.PHONY: image-context
image-context: build
	rm -rf '$(BIN)/image' && mkdir -p '$(BIN)/image/bin' '$(BIN)/image/lib/lancemaster'
	chmod 0777 '$(BIN)/image/lib/lancemaster'
	cp '$(BIN)/lancemaster' '$(BIN)/lanceworker-stub' '$(BIN)/image/bin/'
	cp "$${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}" '$(BIN)/image/ca-certificates.crt'
	install -m 0644 deploy/docker/lancemaster.yaml '$(BIN)/image/lancemaster.yaml'

.PHONY: image
image: image-context ## Build the container image lancemaster:local (wants buildah or docker)
	@bash .ci/image.sh build '$(BIN)/image'

.PHONY: image-test
image-test: image-context ## Build the image and run its programs as any user (wants buildah and root)
	@bash .ci/image.sh test '$(BIN)/image'

.PHONY: systemd-verify
systemd-verify: build ## Check the systemd units (wants systemd-analyze)
	@bash .ci/systemd.sh '$(BIN)'

.PHONY: check
check: race lint generate-check fuzz doris-test e2e faults interop alerts-test model demo-outcomes nextlevel k8s-test systemd-verify image-test release reproducible vuln readme ## All that CI does beyond test

.PHONY: clean
clean: ## Remove what was built
	rm -rf '$(BIN)' dist
