// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/fakeclock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture consists of a schema and a store. The store keeps merged operands in a map and completes writes immediately.
type fixture struct {
	catalog  *catalog.Catalog
	ddl      *ddl.Executor
	executor *Executor

	mu    sync.Mutex
	rows  map[string][]byte // the key consists of the table, the kind, the partition key, and the clustering key
	clock int64             // the leader's clock in microseconds
	// sent describes the writes of the last execution.
	sent []string
}

var fixtureNow = time.Unix(1_000_000, 0).UTC()

func newFixture(t testing.TB) *fixture {
	w := &fixture{rows: map[string][]byte{}, clock: 5000}
	w.catalog = catalog.New(schema.New(), func() catalog.NodeInfo { return catalog.NodeInfo{} })
	w.ddl = ddl.New(w.catalog, w, ddl.Options{Clock: fakeclock.At(fixtureNow)})
	w.executor = NewExecutor(w, Options{})
	w.mustDDL(t, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	return w
}

// Apply implements ddl.Store.
func (w *fixture) Apply(_ context.Context, c schema.Change, _ string) (*schema.Schema, []schema.Event, error) {
	s, events, err := schema.Apply(w.catalog.Snapshot(), c)
	if err == nil {
		w.catalog.Publish(s, events...)
	}
	return s, events, err
}

func (w *fixture) mustDDL(t testing.TB, text string) {
	t.Helper()
	stmt, _, err := parser.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if _, err := w.ddl.Execute(context.Background(), stmt, "ks", ddl.Actor{}, nil); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// Release implements Names.
func (w *fixture) Release() *compat.Release { return compat.Cassandra40 }

func (w *fixture) Functions() *expr.Functions { return nil }

func (w *fixture) Table(name parser.QualifiedName) (*schema.Keyspace, *schema.Table, error) {
	ks := "ks"
	if name.HasKeyspace() {
		ks = name.Keyspace.Name
	}
	s := w.catalog.Snapshot()
	if t := s.Table(ks, name.Name.Name); t != nil {
		return s.Keyspace(ks), t, nil
	}
	return nil, nil, dberr.Invalidf("table %s does not exist", name.Name.Name)
}

type outcome struct {
	Outcome
	completed int
}

func (o *outcome) Written(r *Outcome) {
	o.completed++
	o.Outcome = *r
	o.Cells = bytes.Clone(r.Cells)
}

func (w *fixture) request() *Request {
	return &Request{Bindings: expr.Bindings{Now: fixtureNow, UUIDs: cqltype.NewTimeUUIDs([6]byte{1, 2, 3, 4, 5, 6}, 7)},
		Level: dberr.LocalQuorum}
}

// execute prepares and executes a statement.
func (w *fixture) execute(text string, r *Request) *outcome {
	o := &outcome{}
	stmt, markers, err := parser.Parse(text)
	if err != nil {
		o.Err = err
		return o
	}
	if b, ok := stmt.(*parser.Batch); ok {
		plan, err := PrepareBatch(b, w, len(markers))
		if o.Err = err; err == nil {
			w.executor.ExecuteBatch(context.Background(), plan, r, o)
		}
		return o
	}
	plan, err := w.prepare(text)
	if o.Err = err; err == nil {
		w.executor.Execute(context.Background(), plan, r, o)
	}
	return o
}

func (w *fixture) prepare(text string) (*Plan, error) {
	stmt, markers, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	ks, t, err := w.Table(parser.ModifiedTable(stmt))
	if err != nil {
		return nil, err
	}
	return Prepare(compat.Cassandra40, stmt, ks, t, len(markers))
}

// Write implements Coordinator.
func (w *fixture) Write(_ context.Context, ms []command.Mutation, o coordinator.WriteOptions, done command.Completion) {
	w.mu.Lock()
	for i := range ms {
		w.note(&ms[i], fmt.Sprintf("%s atomic=%v", o.Type, o.Atomic))
		w.apply(ms[i].Ops, &ms[i])
	}
	var err error
	for _, u := range o.Updates {
		if _, failed := w.decide(u, o); err == nil {
			err = failed
		}
	}
	w.mu.Unlock()
	done.Done(command.Failed(err))
}

// ConditionalWrite implements Coordinator. It evaluates the conditions like a leader.
func (w *fixture) ConditionalWrite(_ context.Context, c *command.Conditional, o coordinator.WriteOptions,
	done command.Completion) {
	w.mu.Lock()
	d, err := w.decide(c, o)
	w.mu.Unlock()
	if err != nil {
		done.Done(command.Failed(err))
		return
	}
	done.Done(command.Decided(d, 0))
}

func (w *fixture) decide(c *command.Conditional, o coordinator.WriteOptions) (*command.CASResult, error) {
	w.note(&c.Mutation, fmt.Sprintf("%s serial=%d", o.Type, c.Serial))
	d := &command.CASResult{Found: make([]*row.Row, len(c.Rows))}
	m := &c.Mutation
	var h row.Header
	h.Clear()
	if stored := w.rows[place(m, command.OpHeader, nil)]; stored != nil {
		if err := h.Resolve(stored, c.Now, c.Dropped); err != nil {
			return nil, err
		}
	}
	for i, ref := range c.Rows {
		if ref.Static {
			if h.Static.Exists() {
				d.Found[i] = &h.Static
			}
			continue
		}
		if stored := w.rows[place(m, command.OpRow, ref.Clustering)]; stored != nil {
			r := &row.Row{}
			if exists, err := r.Resolve(stored, h.Covering(ref.Clustering), c.Now, c.Dropped); err != nil {
				return nil, err
			} else if exists {
				d.Found[i] = r
			}
		}
	}
	for _, cond := range c.Conditions {
		w.sent = append(w.sent, fmt.Sprintf("  if row %d column %d %s %x", cond.Row, cond.Column, cond.Operator,
			cond.Values))
	}
	for _, u := range c.Updates {
		w.sent = append(w.sent, fmt.Sprintf("  update row %d column %d kind %d %x", u.Row, u.Column, u.Kind, u.Args))
	}
	var err error
	if d.Applied, err = command.Check(c, d.Found); err != nil || !d.Applied {
		return d, err
	}
	ops, err := command.Resolve(slices.Clip(m.Ops), c, d.Found, row.Unstamped)
	if err == nil {
		w.apply(ops, m)
	}
	return d, err
}

func place(m *command.Mutation, kind command.OpKind, clustering []byte) string {
	return fmt.Sprintf("%d/%d/%x/%x", m.Table, kind, m.Key, clustering)
}

func (w *fixture) apply(ops []command.Op, m *command.Mutation) {
	w.clock++
	for _, op := range ops {
		if op.Kind == command.OpIndex {
			continue
		}
		operand := bytes.Clone(op.Operand)
		if row.Timestamp(operand) == row.Unstamped {
			row.Stamp(operand, w.clock)
		}
		p := place(m, op.Kind, op.Clustering)
		if old := w.rows[p]; old != nil {
			merged, err := row.Merge(nil, old, operand)
			if err != nil {
				panic(err)
			}
			operand = merged
		}
		w.rows[p] = operand
	}
}

// note describes a mutation.
func (w *fixture) note(m *command.Mutation, how string) {
	w.sent = append(w.sent, fmt.Sprintf("%s table=%s key=%x token=%d", how,
		w.catalog.Snapshot().TableByID(m.Table).Name, m.Key, m.Token))
	for _, op := range m.Ops {
		switch op.Kind {
		case command.OpIndex:
			w.sent = append(w.sent, fmt.Sprintf("  index %d of %s: %x", op.Index, clusteringText(op.Clustering),
				op.Value))
		case command.OpHeader:
			w.sent = append(w.sent, "  header: "+operandText(op.Operand))
		default:
			w.sent = append(w.sent, "  row "+clusteringText(op.Clustering)+": "+operandText(op.Operand))
		}
	}
}

func clusteringText(c []byte) string {
	if len(c) == 0 {
		return "-"
	}
	return hex.EncodeToString(c)
}

// reader decodes operands. Package row documents the format.
type reader struct{ b []byte }

func (r *reader) byte() byte { v := r.b[0]; r.b = r.b[1:]; return v }
func (r *reader) int64() int64 {
	v := int64(binary.BigEndian.Uint64(r.b))
	r.b = r.b[8:]
	return v
}
func (r *reader) uvarint() uint64 { v, n := binary.Uvarint(r.b); r.b = r.b[n:]; return v }
func (r *reader) varint() int64   { v, n := binary.Varint(r.b); r.b = r.b[n:]; return v }
func (r *reader) bytes() []byte {
	n := r.uvarint()
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// operandText formats the timestamp, the marker, the deletions, and the cells of an operand. The paths of list elements
// are timeuuids of the current time, so operandText prints only the lengths of these paths.
func operandText(operand []byte) string {
	r := &reader{operand}
	flags := r.byte()
	base := r.int64()
	var out []string
	if base == row.Unstamped {
		out = append(out, "unstamped")
	} else {
		out = append(out, fmt.Sprintf("@%d", base))
	}
	if flags&1 != 0 {
		s := "live"
		if flags&4 != 0 {
			s += fmt.Sprintf("%+d", r.varint())
		}
		if flags&2 != 0 {
			s += fmt.Sprintf(" ttl=%d until=%d", r.uvarint(), r.uvarint())
		}
		out = append(out, s)
	}
	if flags&8 != 0 {
		out = append(out, fmt.Sprintf("deleted%+d at=%d", r.varint(), r.uvarint()))
	}
	if flags&16 != 0 {
		for range r.uvarint() {
			open := r.byte()&1 != 0
			delta, at := r.varint(), r.uvarint()
			start, end := r.bytes(), r.bytes()
			limit := hex.EncodeToString(end)
			if open {
				limit = "..."
			}
			out = append(out, fmt.Sprintf("range[%x,%s)%+d at=%d", start, limit, delta, at))
		}
	}
	for len(r.b) > 0 {
		out = append(out, entryText(r))
	}
	return strings.Join(out, " ")
}

func entryText(r *reader) string {
	kind := r.byte()
	s := fmt.Sprintf("c%d", r.uvarint())
	switch kind >> 2 & 3 {
	case 2:
		s += fmt.Sprintf("%+d", r.varint())
	case 3:
		s += fmt.Sprintf("@%d", r.int64())
	case 1:
		s += "-1"
	}
	if kind&16 != 0 {
		path := r.bytes()
		if len(path) >= 16 {
			s += fmt.Sprintf("[#%d]", len(path))
		} else {
			s += fmt.Sprintf("[%x]", path)
		}
	}
	switch kind & 3 {
	case 0:
		return fmt.Sprintf("%s cleared(at=%d)", s, r.uvarint())
	case 3:
		return fmt.Sprintf("%s gone(at=%d)", s, r.uvarint())
	case 2:
		return fmt.Sprintf("%s ttl=%d until=%d =%x", s, r.uvarint(), r.uvarint(), r.bytes())
	}
	return fmt.Sprintf("%s=%x", s, r.bytes())
}

// String formats an outcome. The result is an error, void, or the rows of a conditional statement.
func (o *outcome) String() string {
	if o.Err != nil {
		return strings.TrimPrefix(fmt.Sprintf("%T", o.Err), "*dberr.") + ": " + o.Err.Error()
	}
	var out []string
	for _, w := range o.Warnings {
		out = append(out, "warning: "+w)
	}
	if o.Columns == nil {
		return strings.Join(append(out, "void"), "\n")
	}
	cells := o.Cells
	for range o.RowCount {
		var fields []string
		for _, c := range o.Columns {
			n := int32(binary.BigEndian.Uint32(cells))
			cells = cells[4:]
			v := "null"
			if n >= 0 {
				v = c.Type.Format(cells[:n])
				cells = cells[n:]
			}
			fields = append(fields, c.Name+"="+v)
		}
		out = append(out, strings.Join(fields, " "))
	}
	return strings.Join(out, "\n")
}

// parseValues parses bound values that are separated by blanks. Each value is a hexadecimal string, null, unset, or
// empty.
func parseValues(t testing.TB, text string) (values [][]byte, unset []bool) {
	t.Helper()
	for _, field := range strings.Fields(text) {
		var v []byte
		switch field {
		case "null", "unset":
		case "empty":
			v = []byte{}
		default:
			var err error
			if v, err = hex.DecodeString(field); err != nil {
				t.Fatal(err)
			}
		}
		values, unset = append(values, v), append(unset, field == "unset")
	}
	return values, unset
}
