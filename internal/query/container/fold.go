// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/query/sql"
)

// A page of a query is evaluated where its items are, as far as that saves anything: its reads offer a fold to the
// replicas, which return what a part of the query has made of many items (sql.Query.Part) instead of the items. The
// parts are merged here, in the order of places, beside items of replicas that have passed those on. Continuations are
// made of places and values, so nothing in them tells how a page was evaluated.

// itemsFold is the first byte of the program of a fold of items, and foldVersion its second.
const (
	itemsFold   = 0x10
	foldVersion = 1
	// FirstFold and LastFold bound the first bytes of the programs of folds that Engine carries out.
	FirstFold = itemsFold
	LastFold  = 0x1f
)

const (
	// foldRowsFirst is how many items the first fold of a scan looks at, and each later one twice as many, up to
	// foldRowsMost.
	foldRowsFirst = 500
	foldRowsMost  = 8000
	// foldPays is how many times smaller than the items parts have to be, where they have more than foldSmall bytes,
	// and how many times fewer than them the results of what streams.
	foldPays  = 4
	foldSmall = 1 << 10
	// foldTextMax is up to which length, with its parameters, a query is folded: to compile a longer one for each read
	// takes more than it saves.
	foldTextMax = 32 << 10
)

// folded is what a replica has made of items.
type folded struct {
	// before is how many of the rows of a scan are before them.
	before int
	place  string // of the last item, or behind it
	part   []byte
	items  int64 // how many they were, and the bytes of their bodies
	bytes  int64
}

// folder offers folds of a query with the reads of one page.
type folder struct {
	q   *sql.Query
	r   *QueryRequest
	run *sql.Run
	c   *Container
	// rows is how many items the next one may look at. off says that folds do not pay, or failed.
	rows int
	off  bool
}

// newFolder returns what offers the folds of a page, nil where it is better not to.
func newFolder(c *Container, q *sql.Query, r *QueryRequest, run *sql.Run) *folder {
	size := len(r.Text) + len(r.Continuation)
	for _, p := range r.Parameters {
		size += len(p.Name) + len(p.Value)
	}
	if !q.Parts() || size > min(foldTextMax, command.PushdownBytesMax/2) {
		return nil
	}
	return &folder{q: q, r: r, run: run, c: c, rows: foldRowsFirst}
}

// offer is the fold of the next read of a scan, which goes on with a page, nil for none. What streams has to have shown
// first that it leaves most of the items out.
func (f *folder) offer(w *within, page *Page) *command.Pushdown {
	if f == nil || f.off {
		return nil
	}
	most := f.run.Page
	if m := &page.Metrics; f.q.Streams() {
		if m.RetrievedCount == 0 || m.OutputCount > m.RetrievedCount/foldPays {
			return nil
		}
		most = max(most-len(page.Documents), 1)
	}
	out := codec.Writer{itemsFold, foldVersion}
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

// foldRequest is what travels to a replica.
type foldRequest struct {
	revision     uint64
	text         string
	parameters   []Parameter
	continuation string
	page         int
	now          time.Time
	within       within
	// query is the part of the program that says which query it is, without the page.
	query string
}

// decodeFold reads what offer wrote; byte slices are views.
func decodeFold(src []byte) (q foldRequest, err error) {
	r := codec.NewReader(src, errMalformed)
	if r.Byte() != itemsFold || r.Byte() != foldVersion {
		return q, errMalformed
	}
	if err := passFields(&r, "a fold of a container"); err != nil {
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

// The result of a fold is the number of items, that of the bytes of their bodies, and the part.

func appendFolded(items, bytes int64, part []byte) []byte {
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
	out := folded{before: len(x.rows), items: int64(r.UpTo(1 << 40)), bytes: int64(r.UpTo(1 << 50))}
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
		x.folds = append(x.folds, out)
		x.bytes += len(out.part)
	}
	if x.more = f.More || x.bytes >= chunkBytesMax && len(f.Key) > 0; x.more {
		return command.Stop, nil
	}
	return command.More, nil
}

// offered sets the fold of the next read.
func (x *scan) offered() {
	x.q.Pushdown = nil
	if x.folder != nil {
		x.q.Pushdown = x.folder.offer(&x.within, x.page)
	}
}

// heed learns of a read with a fold whether more of them pay. It returns false if the read has to be sent without.
func (x *scan) heed() bool {
	if x.q.Pushdown == nil {
		return true
	}
	if x.failed {
		x.folder.off = true
		return false
	}
	var parts, items int64
	for i := range x.folds {
		parts, items = parts+int64(len(x.folds[i].part)), items+x.folds[i].bytes
	}
	x.folder.off = parts > items/foldPays && parts > foldSmall
	x.folder.rows = min(2*x.folder.rows, foldRowsMost)
	return true
}

// rowOf is a fold as a row of a query's source.
func (f *folded) row(m *QueryMetrics, indexed bool) sql.Row {
	m.RetrievedCount, m.RetrievedBytes = m.RetrievedCount+f.items, m.RetrievedBytes+f.bytes
	m.FoldedCount += f.items
	if indexed {
		m.IndexHits += f.items
	}
	return sql.Row{Place: f.place, Partial: f.part}
}
