// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/container"
	graph "github.com/ilion-db/ilion/test/history"
)

// This file checks items. All requests of a logical partition and their response statuses must form one sequence of
// atomic requests in the order of time. The dependency graph must have no cycle if the versions of each item are
// ordered by timestamp. The logs must contain an acknowledged request once and completely, a request with an unknown
// outcome completely or not at all, and a rejected request not at all.

// loggedItems records the applied changes to the container.
func (w *simulation) loggedItems(m *command.Mutation) {
	if w.items.table == nil || m.Table != w.items.table.ID {
		return
	}
	for i := range m.Ops {
		op := &m.Ops[i]
		if op.Kind == command.OpHeader {
			for _, id := range stockIDs {
				w.logged(itemAt{keyOfStock(m.Key), id}, loggedItem{stamp: row.Timestamp(op.Operand), born: w.Now})
			}
			continue
		}
		if op.Kind != command.OpRow {
			continue
		}
		var r row.Row
		if _, err := r.Resolve(op.Operand, row.NotDeleted, 0, nil); err != nil {
			w.Fail("an item in a log: %v", err)
			return
		}
		v := loggedItem{stamp: row.Timestamp(op.Operand), born: w.Now}
		if body := r.Cell(w.items.table.ByName[schema.ItemBody].ID); body != nil {
			v.value = numberOf(document.View(body.Value).Get("v"))
		}
		w.logged(itemAt{keyOfStock(m.Key), string(op.Clustering[1:2])}, v) // skip the type byte of a text
	}
}

// logged records a version if it has not been recorded yet.
func (w *simulation) logged(at itemAt, v loggedItem) {
	list := w.items.versions[at]
	if !slices.ContainsFunc(list, func(o loggedItem) bool { return o.stamp == v.stamp && o.value == v.value }) {
		w.items.versions[at] = append(list, v)
	}
}

// keyOfStock returns the key of a logical partition from its encoding in the rows.
func keyOfStock(b []byte) string {
	for _, key := range append(stockKeys, expiringKey) {
		if bytes.Equal(b, stockBytes(key)) {
			return key
		}
	}
	return string(b)
}

// checkItems checks the item requests. checkItems returns the number of keys whose check timed out.
func (w *simulation) checkItems() (unchecked int) {
	if !w.plan.With.Containers {
		return 0
	}
	for _, list := range w.items.versions {
		slices.SortFunc(list, func(a, b loggedItem) int { return int(a.stamp - b.stamp) })
	}
	byKey := map[string][]*itemRequest{}
	for _, r := range w.items.requests {
		if r.ended == 0 && !r.client.t.Dead() {
			w.Fail("%v has no response", r)
		}
		if w.checkLogged(r) {
			byKey[r.key] = append(byKey[r.key], r)
		}
	}
	for _, key := range stockKeys {
		if v := graph.Check(w.dependencies(byKey[key])); v != nil {
			w.Fail("key %s: %v", key, v)
		}
		switch w.checkSequence(byKey[key]) {
		case porcupine.Illegal:
			w.Fail("key %s is not serializable in the order of time (%d requests)", key, len(byKey[key]))
			if w.plan.Print != nil {
				for _, r := range byKey[key] {
					w.plan.Print(r.String())
				}
			}
		case porcupine.Unknown:
			unchecked++
		}
	}
	w.checkReads()
	return unchecked
}

// checkLogged checks a request against the logs. checkLogged reports whether the request was executed or may have been
// executed.
func (w *simulation) checkLogged(r *itemRequest) bool {
	there, missing := 0, 0
	stamps := map[int64]bool{}
	for id, value := range r.writes() {
		if value == 0 {
			continue // deletions cannot be distinguished
		}
		found := 0
		for _, v := range w.items.versions[itemAt{r.key, id}] {
			if v.value == value {
				found++
				stamps[v.stamp] = true
			}
		}
		if found > 1 {
			w.Fail("%v is in the log %d times", r, found)
		}
		if found > 0 {
			there++
		} else {
			missing++
		}
	}
	refused := r.done && r.status != 0
	unchanged := refused || r.done && r.mix != nil && !r.mix.writesOn(r.seen)
	switch {
	case there > 0 && missing > 0, len(stamps) > 1:
		w.Fail("%v is in the log in part: %d items present, %d missing, %d timestamps", r, there, missing, len(stamps))
	case unchanged && there > 0:
		w.Fail("%v is in the log although it was rejected", r)
	case r.done && !unchanged && missing > 0:
		w.Fail("%v is not in the log", r)
	}
	return r.done && r.status != 503 && r.status != 429 || !r.done && !r.query
}

// writesOn reports whether the procedure writes after it has read the values in seen.
func (a *mixArgs) writesOn(seen map[string]uint64) bool { return !a.even || seen[a.reads[0]]%2 == 0 }

// dependencies returns the executed requests with the known versions that they read and wrote.
func (w *simulation) dependencies(requests []*itemRequest) (out []graph.Txn) {
	text := func(value uint64) string { return fmt.Sprint(value) }
	for _, r := range requests {
		t := graph.Txn{Name: "{" + r.String() + "}", Begin: int64(r.called), End: graph.Never}
		if r.done {
			t.End = int64(r.ended)
		}
		if r.done && r.status != 0 {
			continue
		}
		writes := r.writes()
		written := map[string]bool{}
		for _, id := range slices.Sorted(maps.Keys(writes)) {
			versions := w.items.versions[itemAt{r.key, id}]
			i := slices.IndexFunc(versions, func(v loggedItem) bool { return v.value == writes[id] })
			if writes[id] == 0 || i < 0 {
				continue
			}
			o := graph.Write{Version: graph.Version{Item: id, Value: text(writes[id])}, Known: i == 0}
			if i > 0 && versions[i-1].value != 0 {
				o.Over, o.Known = text(versions[i-1].value), true
			}
			t.Writes, written[id] = append(t.Writes, o), true
		}
		if !r.done && len(t.Writes) == 0 {
			continue
		}
		reads := map[string]uint64{}
		for i := range r.ops {
			switch o := &r.ops[i]; {
			case o.kind == container.Read:
				reads[o.id] = o.seen
			case r.done && o.match != 0 && o.kind != container.Upsert: // an upsert creates an item that does not exist
				reads[o.id] = o.match
			}
		}
		maps.Copy(reads, r.seen)
		for id, value := range r.after {
			if !written[id] {
				reads[id] = value
			}
		}
		own := map[uint64]bool{}
		for i := range r.ops {
			own[r.ops[i].value] = true
		}
		for _, id := range slices.Sorted(maps.Keys(reads)) {
			if value := reads[id]; value != 0 && !own[value] {
				t.Reads = append(t.Reads, graph.Version{Item: id, Value: text(value)})
			}
		}
		out = append(out, t)
	}
	return out
}

// stockState is the content of a logical partition.
type stockState [4]struct {
	value  uint64
	unique string
}

// taken reports whether another item has the value of the unique key.
func (s *stockState) taken(i int, unique string) bool {
	for j := range s {
		if j != i && s[j].value != 0 && s[j].unique == unique {
			return true
		}
	}
	return false
}

// execute executes an operation and returns the status of a failure.
func (s *stockState) execute(o *itemOp) int {
	i := placeOfID(o.id)
	is := &s[i]
	switch {
	case o.kind == container.Create && is.value != 0:
		return 409
	case o.kind == container.Create, o.kind == container.Upsert && is.value == 0:
	case is.value == 0:
		return 404
	case o.match != 0 && o.match != is.value:
		return 412
	}
	switch o.kind {
	case container.Read:
		return 0
	case container.Delete:
		is.value, is.unique = 0, ""
		return 0
	case container.Patch:
		is.value = o.value
		return 0
	}
	if s.taken(i, o.unique) {
		return 409
	}
	is.value, is.unique = o.value, o.unique
	return 0
}

// holds reports whether the result of a read of all items, or of the items of one color, matches the state.
func (s *stockState) holds(seen map[string]uint64, color uint64) bool {
	for i, id := range stockIDs {
		want := s[i].value
		if color > 0 && want%colors != color-1 {
			want = 0
		}
		if want != seen[id] {
			return false
		}
	}
	return true
}

// step executes a request. step returns false if the response is impossible.
func (s stockState) step(r *itemRequest) (bool, stockState) {
	next := s
	switch {
	case r.query:
		return !r.done || s.holds(r.after, r.color), s
	case r.clears:
		return !r.done || r.status == 0, stockState{}
	case r.mix == nil:
		for i := range r.ops {
			o := &r.ops[i]
			status := next.execute(o)
			if status != 0 && r.triggered && i > 0 {
				return !r.done || r.status == 400, s // the trigger throws
			}
			if status != 0 {
				return !r.done || (r.triggered || r.failed == i) && r.status == status, s
			}
			if r.done && r.status == 0 && o.kind == container.Read && next[placeOfID(o.id)].value != o.seen {
				return false, s
			}
		}
		return !r.done || r.status == 0, next
	}
	if r.done && r.status == 0 {
		for id, value := range r.seen {
			if s[placeOfID(id)].value != value {
				return false, s
			}
		}
	}
	first := uint64(0)
	if r.mix.even {
		first = s[placeOfID(r.mix.reads[0])].value
	}
	if first%2 != 0 {
		return !r.done || r.status == 0 && len(r.after) == 0, s
	}
	failed := r.mix.fail
	for i, id := range r.mix.writes {
		failed = failed || next.execute(&itemOp{kind: container.Upsert, id: id, value: r.mix.value,
			unique: r.mix.uniques[i]}) != 0
	}
	if failed {
		return !r.done || r.status == 400, s
	}
	return !r.done || r.status == 0 && next.holds(r.after, 0), next
}

// stockModel models a logical partition in which requests execute atomically, one after another.
var stockModel = porcupine.Model{
	Init: func() any { return stockState{} },
	Step: func(state, in, _ any) (bool, any) {
		ok, next := state.(stockState).step(in.(*itemRequest))
		return ok, next
	},
	DescribeOperation: func(in, _ any) string { return in.(*itemRequest).String() },
}

// checkSequence searches for a sequence that explains all responses. It omits requests with an unknown outcome that no
// log contains.
func (w *simulation) checkSequence(requests []*itemRequest) porcupine.CheckResult {
	var ops []porcupine.Operation
	for _, r := range requests {
		end := int64(math.MaxInt64)
		if r.done {
			end = int64(r.ended)
		} else if w.absent(r) {
			continue
		}
		ops = append(ops, porcupine.Operation{ClientId: r.client.id, Input: r, Call: int64(r.called), Return: end})
	}
	return porcupine.CheckOperationsTimeout(stockModel, ops, 10*time.Second)
}

// absent reports whether no log contains a request, which proves that the request was not executed. absent returns
// false for a request that only deletes, because logs do not identify such a request.
func (w *simulation) absent(r *itemRequest) bool {
	deletes := false
	for id, value := range r.writes() {
		if value == 0 {
			deletes = true
		} else {
			return !slices.ContainsFunc(w.items.versions[itemAt{r.key, id}], func(v loggedItem) bool {
				return v.value == value
			})
		}
	}
	return !deletes
}
