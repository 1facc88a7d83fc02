// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strconv"

	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// storageBody is the view that Cosmos DB's metrics call Storage: a bar for each physical partition of a table; the one
// that is selected says which logical partitions are largest, and what part of the throughput it takes.
type storageBody struct {
	Names []string
	Table string
	Line  *tableLine
	// Width and Height are those of the picture in pixels.
	Width, Height int
	Bars          []bar
	// Most is what the full height stands for, CapY where the storage cap is, 0 if it is above.
	Most, Cap uint64
	CapY      float64
	Chosen    *chosen
}

// bar is a physical partition in the picture.
type bar struct {
	ID       uint64
	X, Y     float64
	W, H     float64
	Tell     string
	Selected bool
	// Class is hot, full or busy, where something is to be said.
	Class string
}

// chosen is the physical partition that is selected.
type chosen struct {
	*admin.PartitionUsage
	State  *admin.PartitionStatus
	Cap    uint64
	Filled float64
	Top    []usage.LargePartition
	Hot    []admin.HotKey
	Doing  string
	// Before and After are its neighbours, for going on by keyboard and without a pointer; 0 at the ends.
	Before, After uint64
}

const (
	storageHeight = 220
	// barStep is what a bar and its gaps take where there are many, wideStep where there are few; between those the
	// bars fill storageWidth.
	barStep, wideStep, storageWidth = 12, 56, 1120
	// topShown is how many logical partitions a selected partition lists.
	topShown = 3
)

func (s *site) storage(r *http.Request, status *admin.Status) any {
	b := &storageBody{Names: tableNames(status), Height: storageHeight}
	b.Table = chosenTable(r, b.Names)
	if b.Table == "" {
		return b
	}
	states := statesOf(status, b.Table)
	for _, u := range s.o.Usage(r.Context(), b.Table, false) {
		if u.Name == b.Table {
			line := s.tableLine(&u)
			b.Line = &line
			id, _ := strconv.ParseUint(r.URL.Query().Get("partition"), 10, 64)
			b.draw(u.Partitions, states, id)
		}
	}
	return b
}

// statesOf are the partitions of a table as the status has them, by id.
func statesOf(status *admin.Status, table string) map[uint64]*admin.PartitionStatus {
	out := map[uint64]*admin.PartitionStatus{}
	for i := range status.Tables {
		if t := &status.Tables[i]; t.Name == table {
			for j := range t.Partitions {
				out[t.Partitions[j].ID] = &t.Partitions[j]
			}
		}
	}
	return out
}

// draw makes the bars, and selects the partition of an id, or the largest one if there is none.
func (b *storageBody) draw(ps []admin.PartitionUsage, states map[uint64]*admin.PartitionStatus, id uint64) {
	at, largest := -1, 0
	for i := range ps {
		if st := states[ps[i].ID]; st != nil {
			b.Cap = max(b.Cap, st.CapBytes)
		}
		b.Most = max(b.Most, ps[i].DiskBytes)
		if ps[i].ID == id {
			at = i
		}
		if ps[i].DiskBytes > ps[largest].DiskBytes {
			largest = i
		}
	}
	if len(ps) == 0 {
		return
	}
	if at < 0 {
		at = largest
	}
	// The cap is in the picture as soon as the largest partition has a fifth of it: below, bars could not be told
	// apart.
	if b.Cap > 0 && b.Most*5 >= b.Cap {
		b.Most = max(b.Most, b.Cap)
		b.CapY = storageHeight * (1 - float64(b.Cap)/float64(b.Most))
	}
	step := min(max(storageWidth/float64(len(ps)), barStep), wideStep)
	for i := range ps {
		b.Bars = append(b.Bars, b.bar(&ps[i], states[ps[i].ID], float64(i)*step, step, i == at))
	}
	b.Width = int(step*float64(len(ps)) + 0.5)
	b.Chosen = choose(ps, at, states[ps[at].ID], b.Cap)
}

// bar is one bar. One that holds next to nothing is high enough to be seen and met.
func (b *storageBody) bar(p *admin.PartitionUsage, st *admin.PartitionStatus, x, step float64, selected bool) bar {
	out := bar{ID: p.ID, X: x + step*0.1, W: step * 0.8, H: 3, Selected: selected}
	if b.Most > 0 {
		out.H = max(3, storageHeight*float64(p.DiskBytes)/float64(b.Most))
	}
	out.Y = storageHeight - out.H
	out.Tell = "partition " + strconv.FormatUint(p.ID, 10) + ": " + size(p.DiskBytes) + ", " + rate(p.PerSecond) +
		" RU/s, " + percent(p.Share) + " of the table"
	switch {
	case p.Throttled > 0 || p.HotSince != "":
		out.Class = "hot"
	case st != nil && (st.SplitsOff != 0 || st.MergesInto != 0 || len(st.Wanted) > 0):
		out.Class = "busy"
	case b.Cap > 0 && p.DiskBytes*10 >= b.Cap*9:
		out.Class = "full"
	}
	return out
}

func choose(ps []admin.PartitionUsage, at int, st *admin.PartitionStatus, limit uint64) *chosen {
	p := &ps[at]
	c := &chosen{PartitionUsage: p, State: st, Cap: limit, Top: p.LargeKeys[:min(topShown, len(p.LargeKeys))],
		Hot: busiestKeys(p.HotKeys)}
	if limit > 0 {
		c.Filled = float64(p.DiskBytes) / float64(limit)
	}
	if at > 0 {
		c.Before = ps[at-1].ID
	}
	if at+1 < len(ps) {
		c.After = ps[at+1].ID
	}
	switch {
	case st == nil:
	case st.SplitsOff != 0:
		c.Doing = "splits, becomes " + strconv.FormatUint(st.SplitsOff, 10) + ", too"
	case st.MergesInto != 0:
		c.Doing = "merges: " + st.MergeStage
	case len(st.Wanted) > 0:
		c.Doing = "moves"
	case st.Stuck != "":
		c.Doing = "is not split: " + st.Stuck
	}
	return c
}

// busiestKeys are those of the keys that somebody asks for now.
func busiestKeys(keys []admin.HotKey) (out []admin.HotKey) {
	for i := range keys {
		if keys[i].PerSecond >= 0.1 && len(out) < topShown {
			out = append(out, keys[i])
		}
	}
	return out
}
