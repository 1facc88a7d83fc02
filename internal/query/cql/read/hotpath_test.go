// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// still is a reader that returns the same rows for every command.
type still struct {
	clusterings [][]byte
	row         row.Row
}

func (s *still) Read(_ context.Context, r *command.Read, v command.Visitor) error {
	step, err := v.Partition(r.Token, r.Key, nil)
	for i := 0; i < len(s.clusterings) && step == command.More && err == nil; i++ {
		step, err = v.Row(s.clusterings[i], &s.row)
	}
	return err
}

// hotPathFixture returns a prepared SELECT on a table with five columns, and a reader that returns the given number of
// rows.
func hotPathFixture(tb testing.TB, query string, rows int) (*Plan, *still) {
	w := newFixture()
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {}",
		"CREATE TABLE ks.t (k bigint, c bigint, v1 text, v2 text, v3 text, v4 text, v5 text, PRIMARY KEY (k, c))",
	} {
		stmt, _, err := parser.Parse(text)
		if err == nil {
			err = w.set(stmt, 0, binds{})
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	w.keyspace = "ks"
	p, err := w.prepare(query)
	if err != nil {
		tb.Fatal(err)
	}
	s := &still{}
	t := w.schema.Table("ks", "t")
	for i := range rows {
		var wire [8]byte
		binary.BigEndian.PutUint64(wire[:], uint64(i))
		s.clusterings = append(s.clusterings, t.Clustering[0].Type.AppendKey(nil, wire[:], false))
	}
	for _, c := range t.Regulars {
		s.row.Cells = append(s.row.Cells, cellOf(c))
	}
	return p, s
}

func cellOf(c *schema.Column) row.Cell {
	return row.Cell{Column: c.ID, Value: make([]byte, 40), Timestamp: 1, Expiry: row.NoExpiry}
}

var hotQueries = []struct{ name, text string }{
	{"point", "SELECT v1, v2, v3, v4, v5 FROM t WHERE k = ? AND c = ?"},
	{"slice", "SELECT k, c, v1, v2, v3, v4, v5 FROM t WHERE k = ? AND c > ?"},
	{"reversed", "SELECT * FROM t WHERE k = ? AND c >= ? ORDER BY c DESC LIMIT 10"},
}

// TestHotPathDoesNotAllocate checks that prepared reads of a row and of a slice do not allocate memory after the
// buffers have grown. The slice read includes the paging state of a full page.
func TestHotPathDoesNotAllocate(t *testing.T) {
	if raced {
		t.Skip("pools forget under the race detector")
	}
	for _, q := range hotQueries {
		t.Run(q.name, func(t *testing.T) {
			rows := 100
			if q.name == "point" {
				rows = 1
			}
			p, s := hotPathFixture(t, q.text, rows)
			b := &expr.Bindings{Values: [][]byte{make([]byte, 8), make([]byte, 8)}, Now: time.Unix(1, 0)}
			var page Page
			o := Options{Level: dberr.LocalOne, PageSize: 50, Now: 1}
			run := func() {
				if err := p.Execute(context.Background(), s, b, o, &page); err != nil || page.Rows == 0 {
					t.Fatal(err, page.Rows)
				}
			}
			run()
			if n := testing.AllocsPerRun(100, run); n >= 1 {
				t.Errorf("%v allocations per execution", n)
			}
		})
	}
}

// BenchmarkExecute measures the CPU time of this package per execution and per row of a page with a thousand rows.
func BenchmarkExecute(b *testing.B) {
	for _, q := range []struct {
		name, text string
		rows       int
	}{
		{"point", hotQueries[0].text, 1},
		{"rows=1k", "SELECT * FROM t WHERE k = ? AND c >= ?", 1000},
		{"rows=1k/five", "SELECT v1, v2, v3, v4, v5 FROM t WHERE k = ? AND c >= ?", 1000},
		{"rows=1k/filter", "SELECT v1 FROM t WHERE k = ? AND c >= ? AND v5 > '' ALLOW FILTERING", 1000},
		{"rows=1k/count", "SELECT count(*) FROM t WHERE k = ? AND c >= ?", 1000},
	} {
		b.Run(q.name, func(b *testing.B) {
			p, s := hotPathFixture(b, q.text, q.rows)
			bind := &expr.Bindings{Values: [][]byte{make([]byte, 8), make([]byte, 8)}, Now: time.Unix(1, 0)}
			var page Page
			o := Options{Level: dberr.LocalOne, PageSize: 5000, Now: 1}
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Execute(context.Background(), s, bind, o, &page); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*q.rows), "ns/row")
		})
	}
}
