.PHONY: build release dist site check test browser race lint sim fuzz bench compat s3 conformance import

build:            ## the binary
	CGO_ENABLED=0 go build -o ilion ./cmd/ilion

release:          ## the binary to ship: the same on every machine, and a third smaller without its symbols
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o ilion ./cmd/ilion

dist:             ## what is shipped, into dist/: archives, Debian packages, a bill of materials, checksums
	deploy/release.sh

site:             ## the documents as a site, into dist/site; needs npm
	cd deploy/site && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build

check:            ## what continuous integration runs
	.ci/run

test:
	go test ./...

browser:          ## the page in a real browser, headless; installs Debian's chromium where there is none
	command -v chromium >/dev/null || (apt-get update && apt-get install -y chromium)
	go test -count=1 -v ./test/browser

race:             ## the tests under the race detector
	go test -race -short ./...

lint:             ## needs golangci-lint v2: go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	golangci-lint run

SEEDS ?= 10000
FROM ?= 1
sim:              ## the simulated cluster with SEEDS seeds beginning with FROM; a line for every hundred
	go test -tags invariants ./test/sim -run TestSeeds -sim.seed=$(FROM) -sim.seeds=$(SEEDS) -timeout=0 -v

FUZZTIME ?= 60s
fuzz:             ## every fuzz target for FUZZTIME each
	test/fuzz.sh $(FUZZTIME)

bench:            ## the performance table of docs/performance.md
	test/perf/run.sh

NODES ?= 1
compat:           ## real drivers against a fresh node, or NODES of them; installs them from their registries
	NODES=$(NODES) test/compat/run.sh

s3:               ## backups against real servers that speak S3; installs them from their registries
	test/s3/run.sh

conformance:      ## all recordings against one node and against four
	go test ./test/conformance -count=1
	go test ./test/conformance -count=1 -run TestConformance -nodes=4

SOURCE ?=
ROWS ?= 1000000
import:           ## an import of ROWS rows from a live Cassandra at SOURCE (HOST:PORT), killed and written to meanwhile
	go test ./test/migration -count=1 -v -timeout 2h -source=$(SOURCE) -rows=$(ROWS)
