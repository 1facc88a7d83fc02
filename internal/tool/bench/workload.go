// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

const (
	columns          = 5
	rowsPerPartition = 1000
	keySize          = 16
	// valueStock is how many different values a run writes; random enough that compression finds nothing between rows.
	valueStock = 512
)

// workload is what a run sends: prepared statements and values.
type workload struct {
	o      Options
	values [][]byte
	insert request
	read   request
	main   []request // one is drawn per request
	table  string
}

// request is a prepared statement and how its values are made.
type request struct {
	text string
	id   []byte
	// key, row and cells say which values are bound: the partition key, a clustering row, that many column values
	// before or after.
	cells    int
	row      bool
	keyFirst bool
}

func newWorkload(o Options) (*workload, error) {
	w := &workload{o: o, table: "rows"}
	cols := "c0, c1, c2, c3, c4"
	w.insert = request{text: "INSERT INTO ilion_bench.rows (k, " + cols + ") VALUES (?, ?, ?, ?, ?, ?)", cells: columns,
		keyFirst: true}
	w.read = request{text: "SELECT " + cols + " FROM ilion_bench.rows WHERE k = ?", keyFirst: true}
	switch o.Workload {
	case "read":
		w.main = []request{w.read}
	case "write":
		w.main = []request{w.insert}
	case "mixed":
		w.main = []request{w.read, w.insert}
	case "update":
		w.main = []request{{text: "UPDATE ilion_bench.rows SET c2 = ? WHERE k = ?", cells: 1}}
	case "scan":
		w.table = "pages"
		w.insert = request{text: "INSERT INTO ilion_bench.pages (k, r, " + cols + ") VALUES (?, ?, ?, ?, ?, ?, ?)",
			cells: columns, row: true, keyFirst: true}
		w.main = []request{{text: "SELECT " + cols + " FROM ilion_bench.pages WHERE k = ?", keyFirst: true}}
	default:
		return nil, fmt.Errorf("unknown workload %q: use read, write, mixed, scan or update", o.Workload)
	}
	switch o.Distribution {
	case "uniform", "zipf", "hot":
	default:
		return nil, fmt.Errorf("unknown distribution %q: use uniform, zipf or hot", o.Distribution)
	}
	if o.Verify && o.Rate > 0 {
		return nil, fmt.Errorf("answers are verified in a closed loop only: leave out the rate")
	}
	if o.Rate < 0 {
		return nil, fmt.Errorf("the rate must be positive, or 0 for a closed loop")
	}
	if o.Keys < 1 || o.InFlight < 1 || o.InFlight > 32768 || o.Connections < 1 || o.RowSize < columns {
		return nil, fmt.Errorf("keys and connections must be at least 1, inflight 1 to 32768, row-size at least %d",
			columns)
	}
	if o.Zeros < 0 || o.Zeros > 100 {
		return nil, errors.New("zeros must be 0 to 100 percent")
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

// Keyspace is where the rows are, which stay there after a run.
const Keyspace = "ilion_bench"

// setup makes the keyspace, the table and, where the workload reads, the rows.
func (w *workload) setup(ctx context.Context, c *rawclient.Conn) error {
	ddl := []string{
		"CREATE KEYSPACE IF NOT EXISTS ilion_bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE IF NOT EXISTS ilion_bench.rows (k text PRIMARY KEY, c0 text, c1 text, c2 text, c3 text, c4 text)",
		"CREATE TABLE IF NOT EXISTS ilion_bench.pages (k text, r int, c0 text, c1 text, c2 text, c3 text, c4 text, PRIMARY KEY (k, r))",
	}
	if !w.o.SkipLoad {
		ddl = append(ddl, "TRUNCATE ilion_bench."+w.table)
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
	if w.o.SkipLoad || w.o.Workload == "write" && !w.o.Verify {
		return nil
	}
	return w.load(ctx)
}

func pointers(rs []request) []*request {
	out := make([]*request, len(rs))
	for i := range rs {
		out[i] = &rs[i]
	}
	return out
}

// load writes every row once, over one connection with many requests in flight.
func (w *workload) load(ctx context.Context) error {
	c, err := rawclient.Dial(ctx, w.o.Addr, w.o.login())
	if err != nil {
		return err
	}
	defer c.Close()
	total, rng := w.o.Keys, rand.New(rand.NewPCG(3, 4))
	if w.insert.row {
		total *= rowsPerPartition
	}
	next, inFlight := 0, min(256, total)
	var ph atomic.Int32
	cell := w.any(rng)
	var first []byte
	l := newLoader(c, inFlight, func(dst []byte, stream int16) []byte {
		n := min(next, total-1)
		if next++; next == total {
			ph.Store(int32(stopping)) // seen by this very goroutine before it reads again
		}
		if w.insert.row {
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
		return fmt.Errorf("load: %d errors, the first: %s", l.errors.Load(), l.firstError)
	}
	if w.o.Progress != nil {
		fmt.Fprintf(w.o.Progress, "loaded %d rows in %.1f s\n", total, time.Since(begin).Seconds())
	}
	return nil
}

// requests returns the generator of one connection.
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

// any has columns take any of the values.
func (w *workload) any(rng *rand.Rand) func(column int) []byte {
	return func(int) []byte { return w.values[rng.IntN(len(w.values))] }
}

// append appends the EXECUTE frame of r, with the values that cell has for columns.
func (w *workload) append(dst []byte, stream int16, r *request, key, row int, cell func(column int) []byte) []byte {
	start := len(dst)
	dst = rawclient.AppendFrame(dst, stream, cqlwire.OpExecute, nil)
	dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(r.id))), r.id...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(w.o.Consistency))
	dst = append(dst, 0x01|0x02) // values, skip metadata
	n := 1 + r.cells
	if r.row {
		n++
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	if r.keyFirst {
		dst = appendKey(dst, key)
	}
	if r.row {
		dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, 4), uint32(row))
	}
	for column := range r.cells {
		v := cell(column)
		dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(v))), v...)
	}
	if !r.keyFirst {
		dst = appendKey(dst, key)
	}
	binary.BigEndian.PutUint32(dst[start+5:], uint32(len(dst)-start-cqlwire.HeaderSize))
	return dst
}

// appendKey appends a key of keySize hexadecimal digits.
func appendKey(dst []byte, key int) []byte {
	return appendHex(binary.BigEndian.AppendUint32(dst, keySize), uint64(key))
}

// Text prints a report for people.
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
		fmt.Fprintf(&b, "  verified     %d wrong answers\n", r.Wrong)
	}
	if r.FirstWrong != "" {
		fmt.Fprintf(&b, "  first wrong  %s\n", r.FirstWrong)
	}
	fmt.Fprintf(&b, "  latency us   p50 %.0f  p95 %.0f  p99 %.0f  p99.9 %.0f\n", r.Latency.P50, r.Latency.P95,
		r.Latency.P99, r.Latency.P999)
	if o := r.Open; o != nil {
		fmt.Fprintf(
			&b,
			"  open loop    %d requests/s due, %.0f good, %d refused (p50 %.0f  p99 %.0f us), %d not sent\n",
			o.Rate,
			o.Goodput,
			o.Refused,
			o.Refusal.P50,
			o.Refusal.P99,
			o.Unsent,
		)
	}
	if r.ServerCPU != nil {
		fmt.Fprintf(&b, "  server CPU   %.2f us/request", *r.ServerCPU)
		if r.RowsPerRequest > 1 {
			fmt.Fprintf(&b, " (%.3f us/row)", *r.ServerCPU/float64(r.RowsPerRequest))
		}
		b.WriteString("\n")
	} else {
		b.WriteString("  server CPU   unknown: give --server-pid\n")
	}
	return b.String()
}
