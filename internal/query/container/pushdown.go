// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// Aggregation pushdown evaluates a query page on the replicas if that reduces the amount of data. A read contains an
// aggregation, and the replica returns a partial result (sql.Query.Part) instead of the items. The coordinating node
// merges the partial results in place order with the items that other replicas have returned. Continuations consist of
// places and values and are therefore independent of pushdown.

// itemsPushdown is the first byte of an item aggregation program. pushdownVersion is the second byte.
const (
	itemsPushdown   = 0x10
	pushdownVersion = 1
	// FirstPushdown and LastPushdown are the bounds of the first byte of aggregation programs that Engine executes.
	FirstPushdown = itemsPushdown
	LastPushdown  = 0x1f
)

const (
	// pushdownRowsFirst is the number of items of a scan's first aggregation. Each later aggregation reads twice as
	// many items, up to pushdownRowsMost.
	pushdownRowsFirst = 500
	pushdownRowsMost  = 8000
	// pushdownGain is the minimum ratio of the items' size to the size of a partial result that exceeds pushdownSmall
	// bytes. For streaming queries, pushdownGain is the minimum ratio of items to results.
	pushdownGain  = 4
	pushdownSmall = 1 << 10
	// pushdownTextMax is the maximum length of a query and its parameters for pushdown. Compiling a longer query for
	// each read costs more than it saves.
	pushdownTextMax = 32 << 10
)

// partial is the partial result that a replica has computed from items.
type partial struct {
	// before is the number of the scan's rows that precede these items.
	before int
	place  string // place of the last item, or the place after it
	part   []byte
	items  int64 // the number of items and the total size of their bodies in bytes
	bytes  int64
}

// pushdownPlan adds pushdown to the reads of a page.
type pushdownPlan struct {
	q   *sql.Query
	r   *QueryRequest
	run *sql.Run
	c   *Container
	// rows is the number of items for the next aggregation. off reports whether pushdown is inefficient or failed.
	rows int
	off  bool
}

// newPushdownPlan returns the pushdownPlan of a page, or nil if pushdown is not useful.
func newPushdownPlan(c *Container, q *sql.Query, r *QueryRequest, run *sql.Run) *pushdownPlan {
	size := len(r.Text) + len(r.Continuation)
	for _, p := range r.Parameters {
		size += len(p.Name) + len(p.Value)
	}
	if !q.Parts() || size > min(pushdownTextMax, command.PushdownBytesMax/2) {
		return nil
	}
	return &pushdownPlan{q: q, r: r, run: run, c: c, rows: pushdownRowsFirst}
}

// offer returns the aggregation for the next read of a scan that continues a page, or nil. A streaming query uses
// pushdown only after its filter has rejected most items.
func (f *pushdownPlan) offer(w *within, page *Page) *command.Pushdown {
	if f == nil || f.off {
		return nil
	}
	most := f.run.Page
	if m := &page.Metrics; f.q.Streams() {
		if m.RetrievedCount == 0 || m.OutputCount > m.RetrievedCount/pushdownGain {
			return nil
		}
		most = max(most-len(page.Documents), 1)
	}
	out := codec.Writer{itemsPushdown, pushdownVersion}
	out.EndFields()
	out.Uint(f.c.table.Revision)
	out.Text(f.r.Text)
	out.Uint(uint64(len(f.r.Parameters)))
	for _, p := range f.r.Parameters {
		out.Text(p.Name)
		out.Bytes(p.Value)
	}
	out.Text(f.r.Continuation)
	out.Uint(uint64(most))
	out.Int(f.run.Now.UnixNano())
	w.append(&out, f.c.table.ID)
	return &command.Pushdown{Program: out, Rows: f.rows}
}

// pushdownRequest is the encoded request to a replica.
type pushdownRequest struct {
	revision     uint64
	text         string
	parameters   []Parameter
	continuation string
	page         int
	now          time.Time
	within       within
	// query is the part of the program that identifies the query, without the page.
	query string
}

// decodePushdown decodes the output of offer. Byte slices refer to src.
func decodePushdown(src []byte) (q pushdownRequest, err error) {
	r := codec.NewReader(src, errMalformed)
	if r.Byte() != itemsPushdown || r.Byte() != pushdownVersion {
		return q, errMalformed
	}
	if err := passFields(&r, "a container aggregate"); err != nil {
		return q, err
	}
	q.revision = r.Uint()
	begin := r.Rest()
	q.text = r.Text()
	for range r.Count(2) {
		q.parameters = append(q.parameters, Parameter{Name: r.Text(), Value: r.Bytes()})
	}
	if r.Err() == nil {
		q.query = string(begin[:len(begin)-len(r.Rest())])
	}
	q.continuation = r.Text()
	q.page = int(r.UpTo(1 << 31))
	q.now = time.Unix(0, r.Int())
	q.within = takeWithin(&r)
	return q, r.End()
}

// The result of an aggregation consists of the number of items, the size of their bodies, and the partial result.

func appendPartial(items, bytes int64, part []byte) []byte {
	w := make(codec.Writer, 0, len(part)+20)
	w.Uint(uint64(items))
	w.Uint(uint64(bytes))
	w.Raw(part)
	return w
}

// PushedDown implements command.PushdownVisitor.
func (x *scan) PushedDown(f *command.PushdownResult) (command.Step, error) {
	if f.Failed {
		x.failed = true
		return command.Stop, nil
	}
	r := codec.NewReader(f.Result, errMalformed)
	out := partial{before: len(x.rows), items: int64(r.UpTo(1 << 40)), bytes: int64(r.UpTo(1 << 50))}
	out.part = bytes.Clone(r.Rest())
	if err := r.Err(); err != nil {
		return command.Stop, err
	}
	if len(f.Key) > 0 {
		x.at = place{ring: f.Token.Position(), key: bytes.Clone(f.Key)}
		if !f.AfterPartition {
			x.at.clustering = append([]byte{}, f.Clustering...)
		}
	}
	if out.items > 0 {
		out.place = string(x.at.append(nil))
		x.partials = append(x.partials, out)
		x.bytes += len(out.part)
	}
	if x.more = f.More || x.bytes >= chunkBytesMax && len(f.Key) > 0; x.more {
		return command.Stop, nil
	}
	return command.More, nil
}

// offered sets the aggregation of the next read.
func (x *scan) offered() {
	x.q.Pushdown = nil
	if x.pushdownPlan != nil {
		x.q.Pushdown = x.pushdownPlan.offer(&x.within, x.page)
	}
}

// checkPushdown decides after a read with an aggregation whether further pushdown is useful. checkPushdown returns
// false if the read must be repeated without an aggregation.
func (x *scan) checkPushdown() bool {
	if x.q.Pushdown == nil {
		return true
	}
	if x.failed {
		x.pushdownPlan.off = true
		return false
	}
	var parts, items int64
	for i := range x.partials {
		parts, items = parts+int64(len(x.partials[i].part)), items+x.partials[i].bytes
	}
	x.pushdownPlan.off = parts > items/pushdownGain && parts > pushdownSmall
	x.pushdownPlan.rows = min(2*x.pushdownPlan.rows, pushdownRowsMost)
	return true
}

// row returns a partial result as a row of a query's source.
func (f *partial) row(m *QueryMetrics, indexed bool) sql.Row {
	m.RetrievedCount, m.RetrievedBytes = m.RetrievedCount+f.items, m.RetrievedBytes+f.bytes
	m.PushedDownCount += f.items
	if indexed {
		m.IndexHits += f.items
	}
	return sql.Row{Place: f.place, Partial: f.part}
}
