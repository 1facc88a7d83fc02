// SPDX-License-Identifier: Apache-2.0

package rowdiff

import (
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// TestUnreadableRow checks that a row whose key cannot be read has its own error. The rows before and after it must be
// read. The last clustering columns may be null, but a null must not precede a value.
func TestUnreadableRow(t *testing.T) {
	column := func(name, kind string) Column {
		return Column{Column: bulk.Column{Name: name, Kind: kind, Type: "int"}, Type: cqltype.Native(cqltype.Int)}
	}
	l := &Layout{Table: &bulk.Table{}, Partition: []Column{column("p", "partition_key")},
		Clustering: []Column{column("a", "clustering"), column("b", "clustering")}}
	one, bad := []byte{0, 0, 0, 1}, []byte{1}
	page := &cqlwire.Result{Kind: cqlwire.ResultRows, ColumnCount: 3}
	for _, r := range []struct {
		a, b []byte
	}{{one, nil}, {one, one}, {one, bad}, {nil, one}, {nil, nil}} {
		for _, v := range [][]byte{one, r.a, r.b} {
			page.Cells = cqltype.AppendValue(page.Cells, v)
		}
		page.RowCount++
	}
	d := decoder{q: &Query{layout: l}}
	rows, err := d.page(page, time.Now())
	if err != nil || len(rows) != 5 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, want := range []struct {
		readable bool
		nulls    int
	}{{true, 1}, {true, 0}, {}, {}, {}} {
		if r := &rows[i]; (r.Err == nil) != want.readable || want.readable && r.nulls != want.nulls {
			t.Errorf("row %d: %d nulls, %v", i, r.nulls, r.Err)
		}
	}
	if got := l.KeyText(&rows[0]); got != "p = 1 AND a = 1 AND b = null" {
		t.Errorf("the key of a row is %q", got)
	}
}
