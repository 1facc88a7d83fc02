// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/hex"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// ChangeStatus is a split, merge, or move of a physical partition. The operation is in progress or completed.
type ChangeStatus struct {
	// Number is the position of the completed operation in the history of the cluster. It is 0 while the operation is
	// in progress.
	Number uint64 `json:"number,omitempty"`
	// Kind is split, merge, or move.
	Kind      string `json:"kind"`
	Table     string `json:"table"`
	Partition uint64 `json:"partition"`
	// Other is the partition that was split off or merged. From and To are the nodes of a move. If From is empty, a
	// replica is added. If To is empty, a replica is removed.
	Other uint64 `json:"other,omitempty"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Cause string `json:"cause"`
	// Began is the time of the request, and Ended is the time at which the topology contained the result. Both times
	// are in RFC 3339 format. They are empty if they are unknown.
	Began string `json:"began,omitempty"`
	Ended string `json:"ended,omitempty"`
	// Outcome is done or abandoned. It is empty while the operation is in progress.
	Outcome string `json:"outcome,omitempty"`
	// Millis is the duration up to now, in milliseconds.
	Millis int64 `json:"took_ms"`
	// DiskBytes is the amount of moved data, or the size of the split or merged partition. PauseMicros is the time, in
	// microseconds, for which some keys were not writable. PauseMicros is 0 if the time is unknown.
	DiskBytes   uint64 `json:"disk_bytes,omitempty"`
	PauseMicros int64  `json:"pause_us,omitempty"`
}

// changesShown is the maximum number of operations that a status lists.
const changesShown = 100

// changes lists the operations in progress.
func (n *Reporter) changes() []ChangeStatus {
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

// underWay counts the operations in progress.
func (n *Reporter) underWay() (count int) {
	for p := range n.Records.State().Topology.All() {
		count += len(meta.InProgress(p))
	}
	return count
}

// ended returns the number of completed operations.
func (n *Reporter) ended() uint64 {
	if h := n.Records.State().History; len(h) > 0 {
		return h[len(h)-1].Number
	}
	return 0
}

// History lists the completed splits, merges, and moves. It contains up to meta.EventsKept operations, and the newest
// operation is last.
func (n *Reporter) History() []ChangeStatus {
	out := []ChangeStatus{}
	for _, e := range n.Records.State().History {
		out = append(out, n.changeStatus(e, time.UnixMilli(e.Ended)))
	}
	return out
}

func (n *Reporter) changeStatus(e *meta.Event, until time.Time) ChangeStatus {
	c := ChangeStatus{Number: e.Number, Kind: e.Kind.String(), Table: n.Catalog.TableName(e.Table),
		Cause:     e.Cause.String(),
		Partition: uint64(e.Partition), Other: uint64(e.Other), From: idOf(e.From), To: idOf(e.To),
		Began: timeOf(e.Began), Ended: timeOf(e.Ended), DiskBytes: e.Bytes, PauseMicros: e.Pause.Microseconds()}
	if e.Ended != 0 {
		c.Outcome = e.Outcome()
	}
	if e.Partition == topology.MetaPartition {
		c.Table = "the metadata"
	}
	if e.Began != 0 {
		c.Millis = max(until.UnixMilli()-e.Began, 0)
	}
	return c
}

// idOf returns the full ID of a node. For the zero ID, it returns an empty string.
func idOf(id topology.NodeID) string {
	if id == (topology.NodeID{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// timeOf formats a time in milliseconds since the epoch. For 0, it returns an empty string.
func timeOf(millis int64) string {
	if millis == 0 {
		return ""
	}
	return time.UnixMilli(millis).UTC().Format(time.RFC3339Nano)
}
