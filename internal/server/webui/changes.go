// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"net/http"
	"slices"

	"github.com/ilion-db/ilion/internal/server/admin"
)

// changesMost is the maximum number of operations to list.
const changesMost = 200

// changesBody lists the splits, merges, and moves. It lists the operations in progress and the completed operations.
// The newest operation is first.
type changesBody struct {
	UnderWay, Ended []admin.ChangeStatus
}

func (s *site) changes(_ *http.Request, status *admin.Status) any {
	ended := s.o.Reports.History()
	ended = slices.Clone(ended[max(0, len(ended)-changesMost):])
	slices.Reverse(ended)
	// The status may be slightly older than the history.
	underWay := slices.DeleteFunc(slices.Clone(status.Changes), func(c admin.ChangeStatus) bool {
		return slices.ContainsFunc(ended, func(e admin.ChangeStatus) bool { return same(c, e) })
	})
	return &changesBody{underWay, ended}
}

// same reports whether b is a later state of operation a.
func same(a, b admin.ChangeStatus) bool {
	return a.Kind == b.Kind && a.Partition == b.Partition && a.Other == b.Other && a.From == b.From && a.To == b.To &&
		a.Began == b.Began
}
