// SPDX-License-Identifier: Apache-2.0

package container

import (
	"maps"
	"slices"
	"strings"
)

// IndexUtilization says which indexes a query has used, and which it could use if the policy included them: paths of
// single indexes, /a/?, in order, and the properties of composite indexes, /a ASC.
type IndexUtilization struct {
	UtilizedSingle, PotentialSingle       []string
	UtilizedComposite, PotentialComposite [][]string
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
	by := &composite{paths: p.combined}
	for _, path := range slices.Sorted(maps.Keys(p.used)) {
		if uses && !by.has(strings.TrimSuffix(path, "/?")) {
			u.UtilizedSingle = append(u.UtilizedSingle, path)
		}
	}
	if p.combined != nil {
		u.UtilizedComposite = append(u.UtilizedComposite, specsOf(p.combined))
	} else if p.lacking != nil {
		u.PotentialComposite = append(u.PotentialComposite, specsOf(p.lacking))
	}
	u.PotentialSingle = slices.Sorted(maps.Keys(p.missed))
	return u
}
