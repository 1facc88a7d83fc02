// SPDX-License-Identifier: Apache-2.0

// Package bench loads a CQL server and measures it: throughput, latency, and the CPU time the server spends on a
// request, which is the figure that can be compared between runs on a shared machine. It speaks to any CQL server
// through package rawclient; it knows nothing of Ilion but the private question for CPU time, and for other servers on
// the same machine reads that from the process table.
//
// The load is closed by default: every connection keeps a fixed number of requests in flight, and sends the next when
// an answer has come. With Options.Rate it is open: requests are sent when they are due, whatever became of those
// before, and their latencies count from then. Start at Run.
package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// Options describe a run. Run wants all of them set but ServerPIDs, User, Password, TLS and Progress.
type Options struct {
	// Workload is one of Workloads.
	Workload string
	Addr     string
	User     string
	Password string
	// TLS has connections encrypted; nil does not.
	TLS *tls.Config
	// Connections times InFlight requests are under way at any time.
	Connections, InFlight int
	// Rate is how many requests are due a second, of all connections together; 0 is a closed loop. InFlight bounds what
	// a connection has under way then, and what is due beyond that is not sent.
	Rate int
	// RowSize is the number of bytes of the five columns of a row together.
	RowSize int
	// Zeros is the percentage of each column that is zeros, so that rows compress: 0 to 100.
	Zeros int
	// Keys is the number of distinct rows; for scan, of partitions of 1,000 rows each.
	Keys int
	// Distribution of keys: uniform, zipf (exponent 1.1), or hot (nine of ten requests go to one key).
	Distribution string
	// Warmup runs before the measurement, Duration is the measurement.
	Warmup, Duration time.Duration
	Consistency      dberr.Consistency
	// ServerPIDs are local processes whose CPU times are summed: where the server cannot be asked, or several nodes do
	// the work.
	ServerPIDs []int
	// SkipLoad trusts that an earlier run with the same sizes has left its rows.
	SkipLoad bool
	// Verify has every read compared with what was written, by one connection for each key.
	Verify bool
	// Progress gets a line each second; nil for none.
	Progress io.Writer
}

func (o *Options) login() rawclient.Options {
	return rawclient.Options{User: o.User, Password: o.Password, TLS: o.TLS}
}

// Report is the outcome of a run. Latencies are in microseconds, from the sending of a request to the arrival of its
// answer, in an open loop from when it was due. Errors have none.
type Report struct {
	Workload     string  `json:"workload"`
	Connections  int     `json:"connections"`
	InFlight     int     `json:"inflight"`
	RowSize      int     `json:"row_size"`
	Keys         int     `json:"keys"`
	Distribution string  `json:"distribution"`
	Consistency  string  `json:"consistency"`
	Seconds      float64 `json:"seconds"`
	Requests     int64   `json:"requests"`
	Errors       int64   `json:"errors"`
	FirstError   string  `json:"first_error,omitempty"`
	// Verified says that answers were checked, Wrong is how many were not as they had to be.
	Verified          bool    `json:"verified"`
	Wrong             int64   `json:"wrong"`
	FirstWrong        string  `json:"first_wrong,omitempty"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	Latency           Latency `json:"latency_us"`
	// ServerCPU is the server's CPU time per request in microseconds; nil if it could not be had.
	ServerCPU *float64 `json:"server_cpu_us_per_request"`
	// Open is what only an open loop has to say.
	Open *Open `json:"open,omitempty"`
	// RowsPerRequest is 1,000 for scan, 10 for lookup, else 1.
	RowsPerRequest int `json:"rows_per_request"`
}

// Open is the outcome of an open loop.
type Open struct {
	// Rate is what was asked for, Goodput the requests a second that were answered without an error.
	Rate    int     `json:"rate"`
	Goodput float64 `json:"goodput_per_second"`
	// Refused were answered OVERLOADED, with these latencies. Unsent were due when too many were under way.
	Refused int64   `json:"refused"`
	Refusal Latency `json:"refusal_latency_us"`
	Unsent  int64   `json:"unsent"`
}

// Latency holds percentiles in microseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

// phase is what the load is doing.
type phase int32

const (
	warming phase = iota
	measuring
	stopping
)

// run is a load under way.
type run struct {
	o     Options
	phase atomic.Int32
	conns []*loader
	// rows is how many rows a request returns or writes.
	rows int
	// ended is true once a connection has ended before it was asked to: it broke.
	ended atomic.Bool
}

// Run makes keyspace, tables and rows, loads the server and reports.
func Run(ctx context.Context, o Options) (*Report, error) {
	w, err := newWorkload(o)
	if err != nil {
		return nil, err
	}
	admin, err := rawclient.Dial(ctx, o.Addr, o.login())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if err := w.setup(ctx, admin); err != nil {
		return nil, err
	}
	cpu := cpuClock{admin: admin, pids: o.ServerPIDs}
	r := &run{o: o, rows: w.rowsPerRequest()}
	if err := r.connect(ctx, w); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for _, l := range r.conns {
		wg.Go(func() {
			l.loop(&r.phase)
			if phase(r.phase.Load()) != stopping {
				r.ended.Store(true)
			}
		})
	}
	rep, err := r.measure(ctx, &cpu)
	r.phase.Store(int32(stopping))
	wg.Wait()
	for _, l := range r.conns {
		l.conn.Close()
	}
	if err != nil {
		return nil, err
	}
	return rep, r.sum(rep)
}

func (r *run) connect(ctx context.Context, w *workload) error {
	for i := range r.o.Connections {
		c, err := rawclient.Dial(ctx, r.o.Addr, r.o.login())
		if err != nil {
			for _, l := range r.conns {
				l.conn.Close()
			}
			return err
		}
		if r.o.Verify {
			check := w.checker(i)
			l := newLoader(c, r.o.InFlight, check.next)
			l.check = check.answer
			r.conns = append(r.conns, l)
			continue
		}
		l := newLoader(c, r.o.InFlight, w.requests(uint64(i)+1))
		if r.o.Rate > 0 {
			l.pace = newPace(float64(r.o.Rate)/float64(r.o.Connections), r.o.InFlight)
		}
		r.conns = append(r.conns, l)
	}
	return nil
}

// measure waits through warm-up and measurement and fills what is read at their edges.
func (r *run) measure(ctx context.Context, cpu *cpuClock) (*Report, error) {
	if err := sleep(ctx, r.o.Warmup); err != nil {
		return nil, err
	}
	rep := &Report{
		Workload: r.o.Workload, Connections: r.o.Connections, InFlight: r.o.InFlight, RowSize: r.o.RowSize,
		Keys:         r.o.Keys,
		Distribution: r.o.Distribution, Consistency: r.o.Consistency.String(), RowsPerRequest: r.rows,
		Verified: r.o.Verify,
	}
	cpu0, have, err := cpu.read()
	if err != nil {
		return nil, err
	}
	r.phase.Store(int32(measuring))
	begin, count0 := time.Now(), r.count()
	last, lastCount := begin, count0
	for end := begin.Add(r.o.Duration); ; {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		if err := sleep(ctx, min(time.Second, left)); err != nil {
			return nil, err
		}
		now, n := time.Now(), r.count()
		if r.ended.Load() {
			return rep, nil // sum says why
		}
		if r.o.Progress != nil {
			fmt.Fprintf(r.o.Progress, "%6.1fs %10.0f req/s %8d errors\n", now.Sub(begin).Seconds(),
				float64(n-lastCount)/now.Sub(last).Seconds(), r.errors())
		}
		last, lastCount = now, n
	}
	cpu1, _, err := cpu.read()
	if err != nil {
		return nil, err
	}
	rep.Seconds = time.Since(begin).Seconds()
	rep.Requests = r.count() - count0
	rep.RequestsPerSecond = float64(rep.Requests) / rep.Seconds
	if have && rep.Requests > 0 {
		per := float64(cpu1-cpu0) / float64(rep.Requests)
		rep.ServerCPU = &per
	}
	return rep, nil
}

// sum adds up what the connections saw, after they have ended.
func (r *run) sum(rep *Report) error {
	var h, refusal histogram
	var open Open
	for _, l := range r.conns {
		h.add(&l.latency)
		refusal.add(&l.refusal)
		if open.Refused += l.refused; l.pace != nil {
			open.Unsent += l.pace.unsent
		}
		rep.Errors += l.errors.Load()
		rep.Wrong += l.wrong
		if rep.FirstError == "" {
			rep.FirstError = l.firstError
		}
		if rep.FirstWrong == "" {
			rep.FirstWrong = l.firstWrong
		}
		if l.broken != nil {
			return fmt.Errorf("a connection broke: %w", l.broken)
		}
	}
	rep.Latency = h.latency()
	if r.o.Rate > 0 {
		open.Rate, open.Goodput, open.Refusal = r.o.Rate, float64(h.total)/rep.Seconds, refusal.latency()
		rep.Open = &open
	}
	return nil
}

func (r *run) count() (n int64) {
	for _, l := range r.conns {
		n += l.done.Load()
	}
	return n
}

func (r *run) errors() (n int64) {
	for _, l := range r.conns {
		n += l.errors.Load()
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return errors.New("interrupted")
	case <-t.C:
		return nil
	}
}
