// SPDX-License-Identifier: Apache-2.0

// Package bench runs a load test against a CQL server. It measures throughput, latency, and the server's CPU time per
// request. On a shared machine, only the CPU time is comparable between runs. It works with any CQL server through
// package rawclient. It reads the CPU time of servers on the same machine from the process table.
//
// By default, the loop is closed. Every connection keeps a fixed number of requests in flight, and sends the next
// request when a response arrives. With Options.Rate, the loop is open. Requests are sent at their scheduled times
// regardless of earlier responses. Latencies are measured from the scheduled times. Start reading at Run.
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

// Options configures a run. Run requires all fields except ServerPIDs, User, Password, TLS, and Progress.
type Options struct {
	// Workload is one of Workloads.
	Workload string
	Addr     string
	User     string
	Password string
	// TLS encrypts connections. If TLS is nil, connections are not encrypted.
	TLS *tls.Config
	// At any time, Connections times InFlight requests are in flight.
	Connections, InFlight int
	// Rate is the number of scheduled requests per second for all connections. The value 0 selects a closed loop. In
	// an open loop, InFlight limits the requests in flight per connection. Requests above that limit are not sent.
	Rate int
	// RowSize is the total size of the five columns of a row, in bytes.
	RowSize int
	// Zeros is the percentage, from 0 to 100, of each column that consists of zeros. Zeros make rows compressible.
	Zeros int
	// Keys is the number of distinct rows. For scan, it is the number of partitions, each with 1,000 rows.
	Keys int
	// Distribution is the key distribution. It is uniform, zipf (exponent 1.1), or hot (nine of ten requests use one
	// key).
	Distribution string
	// Warmup is the time before the measurement. Duration is the length of the measurement.
	Warmup, Duration time.Duration
	Consistency      dberr.Consistency
	// ServerPIDs lists the local processes of the servers. The report contains the sum of their CPU times. If
	// ServerPIDs is empty, the report contains no CPU time.
	ServerPIDs []int
	// SkipLoad uses the rows of an earlier run that had the same sizes.
	SkipLoad bool
	// Verify compares every row that is read with the row that was written. In this case, only one connection uses
	// each key.
	Verify bool
	// Progress receives a line every second. If Progress is nil, no lines are written.
	Progress io.Writer
}

func (o *Options) login() rawclient.Options {
	return rawclient.Options{User: o.User, Password: o.Password, TLS: o.TLS}
}

// Report is the result of a run. Latencies are in microseconds. They are measured from the time at which a request is
// sent to its response. In an open loop, they are measured from the scheduled time. Errors are not included.
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
	// Verified reports whether rows were compared. Wrong is the number of incorrect responses.
	Verified          bool    `json:"verified"`
	Wrong             int64   `json:"wrong"`
	FirstWrong        string  `json:"first_wrong,omitempty"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	Latency           Latency `json:"latency_us"`
	// ServerCPU is the server's CPU time per request in microseconds, or nil if it is unknown.
	ServerCPU *float64 `json:"server_cpu_us_per_request"`
	// Open contains the additional results of an open loop.
	Open *Open `json:"open,omitempty"`
	// RowsPerRequest is 1,000 for scan, 10 for lookup, and 1 for other workloads.
	RowsPerRequest int `json:"rows_per_request"`
}

// Open contains the results of an open loop.
type Open struct {
	// Rate is the scheduled rate. Goodput is the number of successful requests per second.
	Rate    int     `json:"rate"`
	Goodput float64 `json:"goodput_per_second"`
	// Refused is the number of requests that received OVERLOADED. RefusedLatency contains the latencies of these
	// requests. Unsent is the number of requests that were not sent because too many requests were in flight.
	Refused int64   `json:"refused"`
	Refusal Latency `json:"refusal_latency_us"`
	Unsent  int64   `json:"unsent"`
}

// Latency contains latency percentiles in microseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

// phase is the phase of a run.
type phase int32

const (
	warming phase = iota
	measuring
	stopping
)

// run is a run in progress.
type run struct {
	o     Options
	phase atomic.Int32
	conns []*loader
	// rows is the number of rows per request.
	rows int
	// ended is set if a connection failed before the end of the run.
	ended atomic.Bool
}

// Run creates the keyspace, tables, and rows, runs the load test, and returns the report.
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
	rep, err := r.measure(ctx)
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

// measure waits for the end of the warm-up and of the measurement, and records the counters at both times.
func (r *run) measure(ctx context.Context) (*Report, error) {
	if err := sleep(ctx, r.o.Warmup); err != nil {
		return nil, err
	}
	rep := &Report{
		Workload: r.o.Workload, Connections: r.o.Connections, InFlight: r.o.InFlight, RowSize: r.o.RowSize,
		Keys:         r.o.Keys,
		Distribution: r.o.Distribution, Consistency: r.o.Consistency.String(), RowsPerRequest: r.rows,
		Verified: r.o.Verify,
	}
	cpu0, err := cpuTime(r.o.ServerPIDs)
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
			return rep, nil // sum returns the error
		}
		if r.o.Progress != nil {
			fmt.Fprintf(r.o.Progress, "%6.1fs %10.0f req/s %8d errors\n", now.Sub(begin).Seconds(),
				float64(n-lastCount)/now.Sub(last).Seconds(), r.errors())
		}
		last, lastCount = now, n
	}
	cpu1, err := cpuTime(r.o.ServerPIDs)
	if err != nil {
		return nil, err
	}
	rep.Seconds = time.Since(begin).Seconds()
	rep.Requests = r.count() - count0
	rep.RequestsPerSecond = float64(rep.Requests) / rep.Seconds
	if len(r.o.ServerPIDs) > 0 && rep.Requests > 0 {
		per := float64(cpu1-cpu0) / float64(rep.Requests)
		rep.ServerCPU = &per
	}
	return rep, nil
}

// sum adds the results of all connections after they have ended.
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
			return fmt.Errorf("a connection failed: %w", l.broken)
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
