.PHONY: build check test race lint fuzz bench compat

build:            ## the binary
	CGO_ENABLED=0 go build -o ilion ./cmd/ilion

check:            ## what continuous integration runs
	.ci/run

test:
	go test ./...

race:             ## the tests under the race detector
	go test -race -short ./...

lint:             ## needs golangci-lint v2: go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	golangci-lint run

SEEDS ?= 5000
sim:              ## the simulated cluster with SEEDS seeds
	go test ./test/sim -run TestSeeds -sim.seeds=$(SEEDS) -timeout=0

FUZZTIME ?= 60s
fuzz:             ## every fuzz target for FUZZTIME each
	test/fuzz.sh $(FUZZTIME)

bench:            ## the performance table of docs/performance.md
	test/perf/run.sh

compat:           ## real drivers against a fresh node; installs them from their registries
	test/compat/run.sh
