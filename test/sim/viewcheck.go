// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// shownIn determines which base rows each view shows. shownIn does not use product code.
var shownIn = map[string]func(base map[string]string) bool{
	"by_v": func(base map[string]string) bool { return base["v"] != "" },
	"by_c": func(map[string]string) bool { return true },
	"some": func(base map[string]string) bool { return base["w"] != "" && base["c"] >= "1" && base["c"] < "3" },
	"late": func(base map[string]string) bool { return base["w"] != "" && base["v"] != "" },
}

// lastViewReads compares every view with its base after the faults have ended. All hints must be gone. View and base
// must match immediately and at later times, when more cells have expired.
func (w *simulation) lastViewReads() {
	n := w.nodes[w.Rand.IntN(nodeCount)]
	n.Spawn(func(t *simenv.Task) {
		if err := t.Wait(func() bool { return w.hintsLeft() == 0 }, 2*time.Second); err != nil && w.hintsLeft() > 0 {
			w.Fail("%d view hints remain: %v", w.hintsLeft(), err)
			return
		}
		ks := n.cat.Snapshot().Keyspaces[seen]
		for _, later := range []int64{0, 5, 30, 100_000} {
			now := n.Wall().Unix() + later
			base, err := n.rowsAt(ks.Tables["base"], now)
			if err != nil {
				w.Fail("the final read of the base table failed: %v", err)
				return
			}
			for _, v := range ks.ViewsOf("base") {
				rows, err := n.rowsAt(v, now)
				if err != nil {
					w.Fail("the final read of view %s failed: %v", v.Name, err)
					return
				}
				w.compareView(v, base, rows, later)
			}
		}
	})
}

// hintsLeft returns the number of pending hints that the leaders store.
func (w *simulation) hintsLeft() (n int) {
	for _, node := range w.nodes {
		if node.views == nil {
			continue
		}
		for _, l := range node.views.Lags() {
			n += l.Due
		}
	}
	return n
}

func (w *simulation) compareView(v *schema.Table, base, rows []map[string]string, later int64) {
	line := func(r map[string]string) string {
		var parts []string
		for c := range v.Columns() {
			parts = append(parts, c.Name+"="+r[c.Name])
		}
		return strings.Join(parts, " ")
	}
	want := map[string]int{}
	for _, r := range base {
		if shownIn[v.Name](r) {
			want[line(r)]++
		}
	}
	for _, r := range rows {
		want[line(r)]--
	}
	w.counts.ViewRows += len(rows)
	for _, r := range slices.Sorted(maps.Keys(want)) {
		if n := want[r]; n != 0 {
			w.Fail("view %s, read %d s later: %s is in the base %d times more often than in the view", v.Name, later, r, n)
		}
	}
}

// rowsAt reads all rows of a table as of a given second. rowsAt returns the values by column name, with "" for null.
func (n *node) rowsAt(t *schema.Table, now int64) ([]map[string]string, error) {
	v := &rowsViewer{table: t}
	err := n.coord.Read(context.Background(), &command.Read{Table: t.ID, Range: token.Full, Level: dberr.Quorum,
		Now: now, Dropped: t.Hidden()}, v)
	return v.rows, err
}

// rowsViewer collects rows.
type rowsViewer struct {
	table *schema.Table
	key   []byte
	rows  []map[string]string
}

// Partition implements command.Visitor.
func (v *rowsViewer) Partition(_ token.Token, key []byte, _ *row.Row) (command.Step, error) {
	v.key = slices.Clone(key)
	return command.More, nil
}

// Row implements command.Visitor.
func (v *rowsViewer) Row(clustering []byte, r *row.Row) (command.Step, error) {
	out := map[string]string{}
	number := func(b []byte) string { return fmt.Sprint(int32(binary.BigEndian.Uint32(b))) }
	for i, c := range v.table.PartitionKey {
		b, err := expr.PartitionKeyValue(v.table, v.key, i)
		if err != nil {
			return command.Stop, err
		}
		out[c.Name] = number(b)
	}
	for _, c := range v.table.Clustering {
		b, rest, err := c.Type.ReadKey(nil, clustering, c.Desc)
		if err != nil {
			return command.Stop, err
		}
		out[c.Name], clustering = number(b), rest
	}
	for _, c := range v.table.Regulars {
		for _, cell := range r.Column(c.ID) {
			if len(cell.Path) > 0 {
				out[c.Name] += fmt.Sprintf("%x:", cell.Path)
			}
			out[c.Name] += number(cell.Value)
		}
	}
	v.rows = append(v.rows, out)
	return command.More, nil
}
