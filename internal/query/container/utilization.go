// SPDX-License-Identifier: Apache-2.0

package container

import (
	"maps"
	"slices"
)

// IndexUtilization says which indexes a query has used, and which it could use if the policy included them: paths of
// single indexes, /a/?, in order.
type IndexUtilization struct {
	UtilizedSingle, PotentialSingle []string
}

// IndexProgress is how far the index of a container's items is built, in percent: 100 if it is complete, or if there is
// none.
func (e *Engine) IndexProgress(c *Container) int {
	ix := c.table.DocumentIndex()
	if ix == nil || !e.opts.Building(ix) {
		return 100
	}
	return min(e.opts.Progress(ix), 99)
}

// utilization says what the index has to do with a query, which uses it or not.
func (p *planner) utilization(uses bool) (u IndexUtilization) {
	for _, path := range slices.Sorted(maps.Keys(p.used)) {
		if uses {
			u.UtilizedSingle = append(u.UtilizedSingle, path)
		}
	}
	u.PotentialSingle = slices.Sorted(maps.Keys(p.missed))
	return u
}
