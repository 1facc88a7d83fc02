// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"net/http"
	"strconv"

	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// storageBody is the storage view, which corresponds to Storage in the metrics of Cosmos DB. It contains a bar for
// each physical partition of a table. For the selected bar, the view lists the largest logical partitions, and shows
// the share of the throughput.
type storageBody struct {
	Names []string
	Table string
	Line  *tableLine
	// Width and Height are the size of the picture in pixels.
	Width, Height int
	Bars          []bar
	// Most is the value that corresponds to the full height. CapY is the vertical position of the storage cap. It is 0
	// if the cap is above the picture.
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
	// Class is hot, full, or busy if the partition needs attention.
	Class string
}

// chosen is the selected physical partition.
type chosen struct {
	*admin.PartitionUsage
	State  *admin.PartitionStatus
	Cap    uint64
	Filled float64
	Top    []usage.LargePartition
	Hot    []admin.HotKey
	Doing  string
	// Before and After are the IDs of the adjacent partitions for keyboard navigation. An ID is 0 if the partition has
	// no neighbor on that side.
	Before, After uint64
}

const (
	storageHeight = 220
	// barStep is the width of a bar and its gap in a picture with many bars. wideStep is this width in a picture with
	// few bars. For other numbers of bars, the bars fill storageWidth.
	barStep, wideStep, storageWidth = 12, 56, 1120
	// topShown is the number of logical partitions that are listed for the selected partition.
	topShown = 3
)

func (s *site) storage(r *http.Request, status *admin.Status) any {
	b := &storageBody{Names: tableNames(status), Height: storageHeight}
	b.Table = chosenTable(r, b.Names)
	if b.Table == "" {
		return b
	}
	states := statesOf(status, b.Table)
	for _, u := range s.o.Reports.ShowUsage(r.Context(), b.Table, false) {
		if u.Name == b.Table {
			line := s.tableLine(&u)
			b.Line = &line
			id, _ := strconv.ParseUint(r.URL.Query().Get("partition"), 10, 64)
			b.draw(u.Partitions, states, id)
		}
	}
	return b
}

// statesOf maps partition IDs to the partitions of a table in the status.
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

// draw creates the bars and selects the partition with the given ID. If no partition has the ID, it selects the largest
// partition.
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
	// The picture shows the cap only if the largest partition uses at least a fifth of the cap. Otherwise, the bars
	// would be too low to be distinguished.
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

// bar creates a bar. The bar of an almost empty partition is high enough to be visible and clickable.
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
		c.Doing = "is being split: its upper part becomes partition " + strconv.FormatUint(st.SplitsOff, 10)
	case st.MergesInto != 0:
		c.Doing = "is being merged: " + st.MergeStage
	case len(st.Wanted) > 0:
		c.Doing = "is being moved"
	case st.Stuck != "":
		c.Doing = "cannot be split: " + st.Stuck
	}
	return c
}

// busiestKeys returns the keys that currently receive requests.
func busiestKeys(keys []admin.HotKey) (out []admin.HotKey) {
	for i := range keys {
		if keys[i].PerSecond >= 0.1 && len(out) < topShown {
			out = append(out, keys[i])
		}
	}
	return out
}
