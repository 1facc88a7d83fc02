// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"slices"

	"github.com/ilion-db/ilion/internal/server/admin"
)

// changesMost bounds the changes that are listed.
const changesMost = 200

// changesBody are the splits, merges and moves that are under way, and those that have ended, the newest first.
type changesBody struct {
	UnderWay, Ended []admin.ChangeStatus
}

func (s *site) changes(_ *http.Request, status *admin.Status) any {
	ended := s.o.History()
	ended = slices.Clone(ended[max(0, len(ended)-changesMost):])
	slices.Reverse(ended)
	// The status is a little older than the history.
	underWay := slices.DeleteFunc(slices.Clone(status.Changes), func(c admin.ChangeStatus) bool {
		return slices.ContainsFunc(ended, func(e admin.ChangeStatus) bool { return same(c, e) })
	})
	return &changesBody{underWay, ended}
}

// same reports whether one is the other, further on.
func same(a, b admin.ChangeStatus) bool {
	return a.Kind == b.Kind && a.Partition == b.Partition && a.Other == b.Other && a.From == b.From && a.To == b.To &&
		a.Began == b.Began
}
