// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/hex"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// ChangeStatus is a split, a merge or a move of a physical partition, one that is under way or that has ended.
type ChangeStatus struct {
	// Number is that of its end in the history of the cluster, 0 for one that is under way.
	Number uint64 `json:"number,omitempty"`
	// Kind is split, merge or move.
	Kind      string `json:"kind"`
	Table     string `json:"table"`
	Partition uint64 `json:"partition"`
	// Other is what is split off or merged in, From and To are the nodes of a move: without From a replica is added,
	// without To one is removed.
	Other uint64 `json:"other,omitempty"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Cause string `json:"cause"`
	// Began is when it was ordered, Ended when the map had it, in RFC 3339; empty if not known.
	Began string `json:"began,omitempty"`
	Ended string `json:"ended,omitempty"`
	// Outcome is done or abandoned, empty for one that is under way.
	Outcome string `json:"outcome,omitempty"`
	// Millis is how long it took, or has taken so far.
	Millis int64 `json:"took_ms"`
	// DiskBytes is how much was moved, or how large what was split or merged had been; PauseMicros for how long some
	// keys could not be written. 0: not known.
	DiskBytes   uint64 `json:"disk_bytes,omitempty"`
	PauseMicros int64  `json:"pause_us,omitempty"`
}

// changesShown bounds the changes of a status.
const changesShown = 100

// changes lists what is under way.
func (n *Node) changes() []ChangeStatus {
	out := []ChangeStatus{}
	now := time.Now()
	for p := range n.Records.State().Topology.All() {
		for _, e := range meta.InProgress(p) {
			if len(out) < changesShown {
				out = append(out, n.changeStatus(&e, now))
			}
		}
	}
	return out
}

// underWay counts the changes that are under way.
func (n *Node) underWay() (count int) {
	for p := range n.Records.State().Topology.All() {
		count += len(meta.InProgress(p))
	}
	return count
}

// ended is how many changes have ended.
func (n *Node) ended() uint64 {
	if h := n.Records.State().History; len(h) > 0 {
		return h[len(h)-1].Number
	}
	return 0
}

// History lists the splits, merges and moves that have ended, the newest last, meta.EventsKept at most.
func (n *Node) History() []ChangeStatus {
	out := []ChangeStatus{}
	for _, e := range n.Records.State().History {
		out = append(out, n.changeStatus(e, time.UnixMilli(e.Ended)))
	}
	return out
}

func (n *Node) changeStatus(e *meta.Event, until time.Time) ChangeStatus {
	c := ChangeStatus{Number: e.Number, Kind: e.Kind.String(), Table: n.TableName(e.Table), Cause: e.Cause.String(),
		Partition: uint64(e.Partition), Other: uint64(e.Other), From: idOf(e.From), To: idOf(e.To),
		Began: timeOf(e.Began), Ended: timeOf(e.Ended), DiskBytes: e.Bytes, PauseMicros: e.Pause.Microseconds()}
	if e.Ended != 0 {
		c.Outcome = e.Outcome()
	}
	if e.Partition == topology.MetaPartition {
		c.Table = "the records"
	}
	if e.Began != 0 {
		c.Millis = max(until.UnixMilli()-e.Began, 0)
	}
	return c
}

// idOf is the id of a node in full, empty for none.
func idOf(id topology.NodeID) string {
	if id == (topology.NodeID{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// timeOf shows milliseconds since the epoch, 0 as nothing.
func timeOf(millis int64) string {
	if millis == 0 {
		return ""
	}
	return time.UnixMilli(millis).UTC().Format(time.RFC3339Nano)
}
