// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

var rewrite = flag.Bool("rewrite", false, "write the present reports as the expected ones")

// fixture is a table with rows in a separate store.
type fixture struct {
	t      testing.TB
	store  *storage.Store
	table  *schema.Table
	parts  int
	shapes []Shape
	units  int64
	// writes and conditions are the numbers that the leaders have counted.
	writes, conditions uint64
	stamp              int64
	batch              []command.Mutation
}

// epoch is the time of the first row in tests.
var epoch = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// newFixture creates a table from a declaration of the form "name(partition key | clustering key) columns", with
// semicolons between columns. A type that ends with "DESC" has descending order. A type that ends with "static"
// declares a static column.
func newFixture(t testing.TB, declaration string) *fixture {
	t.Helper()
	name, rest, _ := strings.Cut(declaration, "(")
	key, columns, _ := strings.Cut(rest, ")")
	partition, clustering, _ := strings.Cut(key, "|")
	c := &schema.CreateTable{Keyspace: "ks", Name: name, ID: schema.UUID{1}}
	spec := func(text string) (names []string) {
		for _, part := range strings.Split(text, ";") {
			column, typ, ok := strings.Cut(strings.TrimSpace(part), " ")
			if !ok {
				continue
			}
			typ, desc := strings.CutSuffix(typ, " DESC")
			typ, static := strings.CutSuffix(typ, " static")
			parsed, err := schema.ParseType(typ)
			if err != nil {
				t.Fatal(err)
			}
			c.Columns = append(c.Columns, schema.ColumnSpec{Name: column, Type: parsed, Static: static})
			if names = append(names, column); desc {
				c.Order = append(c.Order, schema.OrderSpec{Column: column, Desc: true})
			}
		}
		return names
	}
	c.PartitionKey, c.Clustering = spec(partition), spec(clustering)
	spec(columns)
	s, _, err := schema.Apply(schema.New(), &schema.CreateKeyspace{Name: "ks",
		Properties: []schema.Property{{Name: "replication", IsMap: true, Map: []schema.Entry{
			{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}}}})
	if err == nil {
		s, _, err = schema.Apply(s, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{t: t, table: s.Table("ks", name), parts: 1}
	if w.store, err = storage.Open(vfs.NewMem(), "db", storage.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// insert writes a row. The values are in storage order: keys, static columns, regular columns.
func (w *fixture) insert(values ...any) {
	w.t.Helper()
	t := w.table
	wire := func(c *schema.Column, v any) []byte {
		switch v := v.(type) {
		case string:
			return []byte(v)
		case int:
			return binary.BigEndian.AppendUint32(nil, uint32(v))
		case time.Time:
			if c.Type.Kind == cqltype.Timeuuid {
				u := cqltype.MinTimeUUID(v.UnixMilli())
				return u[:]
			}
			return binary.BigEndian.AppendUint64(nil, uint64(v.UnixMilli()))
		}
		w.t.Fatalf("no value for %T", v)
		return nil
	}
	var components [][]byte
	for i, c := range t.PartitionKey {
		components = append(components, wire(c, values[i]))
	}
	values = values[len(t.PartitionKey):]
	clustering := []byte{}
	for i, c := range t.Clustering {
		clustering = c.Type.AppendKey(clustering, wire(c, values[i]), c.Desc)
	}
	values = values[len(t.Clustering):]
	w.stamp++
	var b row.Builder
	b.Reset(epoch.UnixMicro() + w.stamp)
	b.Live(0, 0)
	for i, c := range t.Regulars {
		if i < len(values) {
			b.Cell(c.ID, nil, wire(c, values[i]), 0, 0)
		}
	}
	key := token.AppendKey(nil, components...)
	w.batch = append(w.batch, command.Mutation{Table: t.ID, Token: token.Hash(key), Key: key,
		Timestamp: epoch.UnixMicro(),
		Ops:       []command.Op{{Kind: command.OpRow, Clustering: clustering, Operand: b.Append(nil)}}})
	if len(w.batch) == 1000 {
		w.flush()
	}
}

func (w *fixture) flush() {
	w.t.Helper()
	if err := w.store.Apply(w.batch...); err != nil {
		w.t.Fatal(err)
	}
	w.batch = w.batch[:0]
}

// input returns the data that the nodes of a cluster would collect.
func (w *fixture) input() *Input {
	w.t.Helper()
	w.flush()
	in := &Input{Table: w.table, Physical: w.parts, Throughput: schema.Throughput{Units: w.units}}
	var part Part
	for i, r := range (token.Range{}).Divide(w.parts) {
		span := keys.TokenSpan(w.table.ID, r)
		survey, err := w.store.Sample(w.t.Context(), span, SurveyOptions(w.parts, epoch))
		if err != nil {
			w.t.Fatal(err)
		}
		e, err := w.store.Estimate(span)
		if err != nil {
			w.t.Fatal(err)
		}
		part.Samples = append(part.Samples, Sample{Partition: uint64(i + 1), DiskBytes: e.Bytes,
			Logical: float64(e.Partitions), Sample: survey, Writes: w.writes / uint64(w.parts),
			Conditions: w.conditions / uint64(w.parts)})
	}
	part.Shapes = w.shapes
	part.Trim()
	b, err := json.Marshal(part)
	if err != nil {
		w.t.Fatal(err)
	}
	part = Part{}
	if err = json.Unmarshal(b, &part); err != nil {
		w.t.Fatal(err)
	}
	in.Add(&part)
	in.Add(&Part{Samples: part.Samples}) // another node that considers itself the leader of the partitions
	return in
}

// kinds returns the kinds of the findings of a report.
func (r *Report) kinds() (kinds []Kind) {
	for i := range r.Findings {
		kinds = append(kinds, r.Findings[i].Kind)
	}
	slices.Sort(kinds)
	return kinds
}

// has reports whether a report has a finding of a kind.
func (r *Report) has(k Kind) bool { return slices.Contains(r.kinds(), k) }

// golden compares a report with the text in testdata.
func golden(t *testing.T, name string, r *Report) {
	t.Helper()
	var b strings.Builder
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
