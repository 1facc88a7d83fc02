.DEFAULT_GOAL := help
.PHONY: help build release dist site check test browser race lint sim fuzz bench compat s3 conformance import

help:             ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "%-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build:            ## Build the binary ./ilion
	CGO_ENABLED=0 go build -o ilion ./cmd/ilion

release:          ## Build a reproducible binary without symbols
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o ilion ./cmd/ilion

dist:             ## Build release archives, Debian packages, and checksums in dist/
	deploy/release.sh

site:             ## Build the documentation website in dist/site (requires npm)
	cd deploy/site && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build

check:            ## Run the checks of continuous integration
	.ci/run

test:             ## Run the tests
	go test ./...

browser:          ## Test the web UI in Chromium; install Chromium if it is missing (Debian)
	command -v chromium >/dev/null || (apt-get update && apt-get install -y chromium)
	go test -count=1 -v ./test/browser

race:             ## Run the tests with the race detector
	go test -race -short ./...

# Install golangci-lint: go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
lint:             ## Run golangci-lint v2
	golangci-lint run

SEEDS ?= 10000
FROM ?= 1
sim:              ## Run the cluster simulator with SEEDS seeds, starting with FROM
	go test -tags invariants ./test/sim -run TestSeeds -sim.seed=$(FROM) -sim.seeds=$(SEEDS) -timeout=0 -v

FUZZTIME ?= 60s
fuzz:             ## Run each fuzz target for FUZZTIME
	test/fuzz.sh $(FUZZTIME)

bench:            ## Run the benchmarks of the performance page
	test/perf/run.sh

NODES ?= 1
compat:           ## Test drivers and tools against NODES nodes; install them from their registries
	NODES=$(NODES) test/compat/run.sh

s3:               ## Test backups with S3-compatible servers; install them from their registries
	test/s3/run.sh

conformance:      ## Compare Ilion with recorded Cassandra responses on one node and on four nodes
	go test ./test/conformance -count=1
	go test ./test/conformance -count=1 -run TestConformance -nodes=4

SOURCE ?=
ROWS ?= 1000000
import:           ## Test an import of ROWS rows from a Cassandra at SOURCE (HOST:PORT)
	go test ./test/migration -count=1 -v -timeout 2h -source=$(SOURCE) -rows=$(ROWS)
