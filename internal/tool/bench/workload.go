// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

const (
	columns          = 5
	rowsPerPartition = 1000
	rowsPerGroup     = 10
	keySize          = 16
	// valueStock is the number of different values that a run writes. The values are random, which prevents
	// compression across rows.
	valueStock = 512
)

// workload holds the prepared statements and values of a run.
type workload struct {
	o      Options
	values [][]byte
	tables
	insert request
	read   request
	main   []request // each request is a random element
}

func newWorkload(o Options) (*workload, error) {
	w := &workload{o: o, tables: plain, insert: insertRow, read: readRow}
	switch o.Workload {
	case "read":
		w.main = []request{readRow}
	case "write":
		w.main = []request{insertRow}
	case "mixed":
		w.main = []request{readRow, insertRow}
	case "update":
		w.main = []request{updateRow}
	case "condition":
		w.main = []request{updateIfExists}
	case "scan":
		w.tables, w.insert, w.main = paged, insertPage, []request{readPage}
	case "lookup":
		w.tables, w.insert, w.main = indexed, insertGrouped, []request{readGroup}
	case "indexed":
		w.tables, w.insert, w.main = indexed, insertGrouped, []request{insertGrouped}
	case "viewed":
		w.tables, w.insert, w.main = viewed, insertViewed, []request{insertViewed}
	default:
		return nil, fmt.Errorf("unknown workload %q: use one of %s", o.Workload, strings.Join(Workloads, ", "))
	}
	switch o.Distribution {
	case "uniform", "zipf", "hot":
	default:
		return nil, fmt.Errorf("unknown distribution %q: use uniform, zipf, or hot", o.Distribution)
	}
	if o.Verify && o.Rate > 0 {
		return nil, fmt.Errorf("--verify requires a closed loop: omit --rate")
	}
	if o.Rate < 0 {
		return nil, fmt.Errorf("the rate must be positive, or 0 for a closed loop")
	}
	if o.Keys < 1 || o.InFlight < 1 || o.InFlight > 32768 || o.Connections < 1 || o.RowSize < columns {
		return nil, fmt.Errorf("keys and connections must be at least 1, inflight must be 1 to 32768, and row-size must be at least %d",
			columns)
	}
	if o.Zeros < 0 || o.Zeros > 100 {
		return nil, errors.New("zeros must be from 0 to 100 percent")
	}
	if o.Verify {
		if err := o.checkable(); err != nil {
			return nil, err
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range valueStock {
		v := make([]byte, o.RowSize/columns)
		for i := len(v) * o.Zeros / 100; i < len(v); i++ {
			v[i] = byte(33 + rng.IntN(64))
		}
		w.values = append(w.values, v)
	}
	return w, nil
}

// Keyspace is the keyspace of the rows. The rows remain after a run.
const Keyspace = "ilion_bench"

// setup creates the keyspace and the table. For workloads that read, it also creates the rows.
func (w *workload) setup(ctx context.Context, c *rawclient.Conn) error {
	ddl := append([]string{createKeyspace, createRows}, w.create...)
	if !w.o.SkipLoad {
		ddl = append(ddl, "TRUNCATE ilion_bench."+w.name)
	}
	for _, s := range ddl {
		if _, err := c.Query(s); err != nil {
			return err
		}
	}
	for _, r := range append([]*request{&w.insert, &w.read}, pointers(w.main)...) {
		p, err := c.Prepare(r.text)
		if err != nil {
			return err
		}
		r.id = append([]byte(nil), p.ID...)
	}
	if w.o.SkipLoad || w.writesAll() && !w.o.Verify {
		return nil
	}
	return w.load(ctx)
}

// rowsPerRequest returns the number of rows per request.
func (w *workload) rowsPerRequest() int {
	if w.main[0].writes() {
		return 1
	}
	return w.rows
}

// writesAll reports whether the workload only inserts rows.
func (w *workload) writesAll() bool { return len(w.main) == 1 && w.main[0].text == w.insert.text }

func pointers(rs []request) []*request {
	out := make([]*request, len(rs))
	for i := range rs {
		out[i] = &rs[i]
	}
	return out
}

// load writes every row once. It uses one connection with many requests in flight.
func (w *workload) load(ctx context.Context) error {
	c, err := rawclient.Dial(ctx, w.o.Addr, w.o.login())
	if err != nil {
		return err
	}
	defer c.Close()
	total, rng := w.o.Keys, rand.New(rand.NewPCG(3, 4))
	if w.paged {
		total *= rowsPerPartition
	}
	next, inFlight := 0, min(256, total)
	var ph atomic.Int32
	cell := w.any(rng)
	var first []byte
	l := newLoader(c, inFlight, func(dst []byte, stream int16) []byte {
		n := min(next, total-1)
		if next++; next == total {
			ph.Store(int32(stopping)) // this goroutine checks for the error before it reads again
		}
		if w.paged {
			return w.append(dst, stream, &w.insert, n/rowsPerPartition, n%rowsPerPartition, cell)
		}
		if w.o.Verify {
			return w.append(dst, stream, &w.insert, n, 0, func(column int) []byte {
				first = w.appendChecked(first[:0], n, 0, column)
				return first
			})
		}
		return w.append(dst, stream, &w.insert, n, 0, cell)
	})
	begin := time.Now()
	l.loop(&ph)
	if l.broken != nil {
		return fmt.Errorf("load: %w", l.broken)
	}
	if l.errors.Load() > 0 {
		return fmt.Errorf("%d rows were not loaded; the first error: %s", l.errors.Load(), l.firstError)
	}
	if w.o.Progress != nil {
		fmt.Fprintf(w.o.Progress, "loaded %d rows in %.1f s\n", total, time.Since(begin).Seconds())
	}
	return nil
}

// requests returns the request generator of a connection.
func (w *workload) requests(seed uint64) func(dst []byte, stream int16) []byte {
	rng := rand.New(rand.NewPCG(seed, 5))
	draw, cell := w.keys(rng), w.any(rng)
	return func(dst []byte, stream int16) []byte {
		r := &w.main[0]
		if len(w.main) > 1 {
			r = &w.main[rng.IntN(len(w.main))]
		}
		return w.append(dst, stream, r, draw(), 0, cell)
	}
}

func (w *workload) keys(rng *rand.Rand) func() int {
	n := w.o.Keys
	switch w.o.Distribution {
	case "zipf":
		if n > 1 {
			z := rand.NewZipf(rng, 1.1, 1, uint64(n-1))
			return func() int { return int(z.Uint64()) }
		}
	case "hot":
		return func() int {
			if rng.IntN(10) > 0 {
				return 0
			}
			return rng.IntN(n)
		}
	}
	return func() int { return rng.IntN(n) }
}

// any returns random values for columns.
func (w *workload) any(rng *rand.Rand) func(column int) []byte {
	return func(int) []byte { return w.values[rng.IntN(len(w.values))] }
}

// Text formats a report.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d connections x %d in flight, %d-byte rows, %d keys %s, %s, %.1f s\n", r.Workload,
		r.Connections, r.InFlight, r.RowSize, r.Keys, r.Distribution, r.Consistency, r.Seconds)
	fmt.Fprintf(&b, "  throughput   %.0f requests/s (%d requests, %d errors)\n", r.RequestsPerSecond, r.Requests,
		r.Errors)
	if r.FirstError != "" {
		fmt.Fprintf(&b, "  first error  %s\n", r.FirstError)
	}
	if r.Verified {
		fmt.Fprintf(&b, "  verified     %d wrong responses\n", r.Wrong)
	}
	if r.FirstWrong != "" {
		fmt.Fprintf(&b, "  first wrong  %s\n", r.FirstWrong)
	}
	fmt.Fprintf(&b, "  latency us   p50 %.0f  p95 %.0f  p99 %.0f  p99.9 %.0f\n", r.Latency.P50, r.Latency.P95,
		r.Latency.P99, r.Latency.P999)
	if o := r.Open; o != nil {
		fmt.Fprintf(&b,
			"  open loop    %d requests/s scheduled, %.0f successful, %d rejected (p50 %.0f  p99 %.0f us), %d not "+
				"sent\n", o.Rate, o.Goodput, o.Refused, o.Refusal.P50, o.Refusal.P99, o.Unsent)
	}
	if r.ServerCPU != nil {
		fmt.Fprintf(&b, "  server CPU   %.2f us/request", *r.ServerCPU)
		if r.RowsPerRequest > 1 {
			fmt.Fprintf(&b, " (%.3f us/row)", *r.ServerCPU/float64(r.RowsPerRequest))
		}
		b.WriteString("\n")
	} else {
		b.WriteString("  server CPU   unknown: specify --server-pid\n")
	}
	return b.String()
}
