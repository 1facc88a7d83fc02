// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/bench"
)

// TestWorkloads checks that every workload runs against a new server without errors. The JSON report must contain the
// fields that its readers require.
func TestWorkloads(t *testing.T) {
	db, err := ilion.Start(t.Context(), ilion.Options{Periodic: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, w := range bench.Workloads {
		t.Run(w, func(t *testing.T) {
			var progress strings.Builder
			rep, err := bench.Run(t.Context(), bench.Options{
				Workload: w, Addr: db.CQLAddr().String(), Connections: 3, InFlight: 4, RowSize: 500, Keys: 3,
				Distribution: "zipf",
				Duration:     100 * time.Millisecond, Consistency: dberr.LocalQuorum, Progress: &progress,
			})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Requests == 0 || rep.Errors != 0 || rep.FirstError != "" || rep.Latency.P50 <= 0 ||
				rep.Latency.P999 < rep.Latency.P50 {
				t.Errorf("report: %+v", rep)
			}
			b, err := json.Marshal(rep)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal(b, &fields); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"workload", "requests", "errors", "requests_per_second", "latency_us"} {
				if fields[f] == nil {
					t.Errorf("the JSON object has no %s", f)
				}
			}
			if !strings.Contains(progress.String(), "req/s") || !strings.Contains(rep.Text(), "throughput") {
				t.Errorf("progress %q, text %q", progress.String(), rep.Text())
			}
		})
	}
}

// TestOpenLoop checks that an open loop sends only requests that are due. It must report the number of requests that
// it could not send.
func TestOpenLoop(t *testing.T) {
	db, err := ilion.Start(t.Context(), ilion.Options{Periodic: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	o := bench.Options{
		Workload:     "mixed",
		Addr:         db.CQLAddr().String(),
		Connections:  2,
		InFlight:     4096,
		RowSize:      50,
		Keys:         3,
		Distribution: "uniform",
		Rate:         2000,
		Duration:     300 * time.Millisecond,
		Consistency:  dberr.LocalQuorum,
	}
	rep, err := bench.Run(t.Context(), o)
	for err == nil && rep.Requests == 0 && t.Context().Err() == nil { // a busy machine may complete none
		o.Duration *= 2
		rep, err = bench.Run(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if rep.Open == nil || rep.Open.Goodput <= 0 || rep.RequestsPerSecond > 6000 || rep.Errors != 0 ||
		rep.Open.Unsent != 0 {
		t.Errorf("report: %+v, %+v", rep, rep.Open)
	}
	o.InFlight, o.Rate = 1, 1_000_000
	if rep, err = bench.Run(t.Context(), o); err != nil || rep.Open.Unsent == 0 || rep.Requests == 0 {
		t.Errorf("with one in flight: %+v, %v", rep, err)
	}
	if !strings.Contains(rep.Text(), "not sent") {
		t.Errorf("text %q", rep.Text())
	}
}

// TestProcessCPU checks that the benchmark reads the CPU time of a local process. The process is the test itself.
func TestProcessCPU(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no process table in /proc")
	}
	db, err := ilion.Start(t.Context(), ilion.Options{Periodic: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	rep, err := bench.Run(t.Context(), bench.Options{
		Workload: "write", Addr: db.CQLAddr().String(), Connections: 1, InFlight: 1, RowSize: 50, Keys: 10,
		Distribution: "uniform",
		Duration:     100 * time.Millisecond, ServerPIDs: []int{os.Getpid()}, Consistency: dberr.One,
	})
	if err != nil || rep.ServerCPU == nil || *rep.ServerCPU <= 0 {
		t.Errorf("report %+v, %v", rep, err)
	}
}

// TestBadOptions checks that invalid options are rejected before a request is sent.
func TestBadOptions(t *testing.T) {
	for name, o := range map[string]bench.Options{
		"workload": {Workload: "nosuch", Connections: 1, InFlight: 1, RowSize: 10, Keys: 1,
			Distribution: "uniform"},
		"distribution": {Workload: "read", Connections: 1, InFlight: 1, RowSize: 10, Keys: 1, Distribution: "nosuch"},
		"row size":     {Workload: "read", Connections: 1, InFlight: 1, RowSize: 4, Keys: 1, Distribution: "uniform"},
		"zeros": {Workload: "read", Connections: 1, InFlight: 1, RowSize: 10, Zeros: 101, Keys: 1,
			Distribution: "uniform"},
		"in flight": {Workload: "read", Connections: 1, InFlight: 40000, RowSize: 10, Keys: 1,
			Distribution: "uniform"},
		"verify ONE": {Workload: "mixed", Connections: 1, InFlight: 1, RowSize: 1000, Keys: 1, Distribution: "uniform",
			Consistency: dberr.One, Verify: true},
	} {
		if _, err := bench.Run(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
