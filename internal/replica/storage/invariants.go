// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/row"
)

// invariants is the state for checking the invariants of a read in builds with the invariants tag.
type invariants struct {
	// prefix is the prefix of the last announced partition. clustering is the last row of that partition.
	prefix, clustering []byte
	rows               int
}

func (l *invariants) begin() {
	if invariant.Enabled {
		*l = invariants{}
	}
}

// checkAnnounced checks that partitions are announced once and in order (ST2).
func (l *invariants) checkAnnounced(rd *reader) {
	if !invariant.Enabled || rd.r.Index != nil {
		return
	}
	invariant.Check(bytes.Compare(rd.prefix, l.prefix) > 0, "ST2: partition %x is read after %x", rd.prefix, l.prefix)
	l.prefix, l.rows = append(l.prefix[:0], rd.prefix...), 0
}

// checkDelivered checks that only requested rows are delivered, each row once and in order (ST2).
func (l *invariants) checkDelivered(rd *reader, clustering []byte) {
	if !invariant.Enabled || rd.r.Index != nil {
		return
	}
	order := bytes.Compare(clustering, l.clustering)
	if rd.r.Reversed {
		order = -order
	}
	invariant.Check(l.rows == 0 || order > 0, "ST2: row %x is read after %x", clustering, l.clustering)
	asked := len(rd.r.Slices) == 0 || slices.ContainsFunc(rd.r.Slices, func(s command.Slice) bool {
		return bytes.Compare(s.Start, clustering) <= 0 && (s.End == nil || bytes.Compare(clustering, s.End) < 0)
	})
	invariant.Check(asked, "ST2: row %x is outside of the slices to read", clustering)
	l.clustering = append(l.clustering[:0], clustering...)
	l.rows++
}

// checkSwept checks that a sweep does not change the row that is visible at the horizon (I2).
func (w *sweep) checkSwept(key, value []byte, covered int64, remains bool) {
	if !invariant.Enabled {
		return
	}
	before := w.visibleRow(value, covered)
	after := ""
	if remains {
		after = w.visibleRow(w.merger.Append(nil), covered)
	}
	invariant.Check(before == after, "I2: a sweep to %d changes row %x from %q to %q", w.sw.Horizon, key, before, after)
}

// visibleRow returns the content of a stored row that is visible at the horizon, or an empty string if the row does not
// exist.
func (w *sweep) visibleRow(value []byte, covered int64) string {
	var r row.Row
	exists, err := r.Resolve(value, covered, w.sw.Horizon, w.sw.Dropped)
	if err != nil || !exists {
		return ""
	}
	return fmt.Sprintf("%v %v %+v", r.Live, r.Liveness, r.Cells)
}
