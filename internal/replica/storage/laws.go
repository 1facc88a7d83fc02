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

// laws is what a read keeps to check itself, with the build tag invariants.
type laws struct {
	// prefix is that of the last partition that the visitor heard of, clustering the last row of it.
	prefix, clustering []byte
	rows               int
}

// begin forgets an earlier read.
func (l *laws) begin() {
	if invariant.Enabled {
		*l = laws{}
	}
}

// announced checks that partitions are passed on once and in order (ST2).
func (l *laws) announced(rd *reader) {
	if !invariant.Enabled || rd.r.Index != nil {
		return
	}
	invariant.Check(bytes.Compare(rd.prefix, l.prefix) > 0, "ST2: partition %x is read after %x", rd.prefix, l.prefix)
	l.prefix, l.rows = append(l.prefix[:0], rd.prefix...), 0
}

// delivered checks that rows of a partition are passed on once, in order, and that they were asked for (ST2).
func (l *laws) delivered(rd *reader, clustering []byte) {
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
	invariant.Check(asked, "ST2: row %x is in no slice that is read", clustering)
	l.clustering = append(l.clustering[:0], clustering...)
	l.rows++
}

// swept checks that what a sweep leaves of a row is seen as the row was at the horizon (I2).
func (w *sweep) swept(key, value []byte, covered int64, remains bool) {
	if !invariant.Enabled {
		return
	}
	before := w.seen(value, covered)
	after := ""
	if remains {
		after = w.seen(w.merger.Append(nil), covered)
	}
	invariant.Check(before == after, "I2: a sweep to %d makes row %x, seen as %q, %q", w.sw.Horizon, key, before, after)
}

// seen is what a reader sees of a stored row at the horizon, nothing if it does not exist.
func (w *sweep) seen(value []byte, covered int64) string {
	var r row.Row
	exists, err := r.Resolve(value, covered, w.sw.Horizon, w.sw.Dropped)
	if err != nil || !exists {
		return ""
	}
	return fmt.Sprintf("%v %v %+v", r.Live, r.Liveness, r.Cells)
}
