.DEFAULT_GOAL := help
.PHONY: help build release dist site check test integration nightly browser race lint sim fuzz bench compat s3 conformance import

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

test:             ## Run the default tests, which need only Go and take less than 4 minutes
	go test ./...

integration:      ## Run the default tests and the tests with processes, clusters, and drivers
	go test -tags integration ./...

nightly:          ## Run the long forms of tests, which take hours
	.ci/nightly

browser:          ## Test the web UI in Chromium; install Chromium if it is missing (Debian)
	command -v chromium >/dev/null || (apt-get update && apt-get install -y chromium)
	go test -tags integration -count=1 -v ./test/browser

race:             ## Run the default tests with the race detector
	go test -race ./...

lint:             ## Run the linters
	.ci/lint

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
	go test -tags integration ./test/conformance -count=1
	go test -tags integration ./test/conformance -count=1 -run TestConformance -nodes=4

SOURCE ?=
ROWS ?= 1000000
import:           ## Test an import of ROWS rows from a Cassandra at SOURCE (HOST:PORT)
	go test -tags integration ./test/migration -count=1 -v -timeout 2h -source=$(SOURCE) -rows=$(ROWS)
