// SPDX-License-Identifier: Apache-2.0

package container

import (
	"maps"
	"slices"
	"strings"
)

// IndexUtilization holds the indexes that a query has used and the indexes that it could use if the policy included
// them. Single indexes are sorted paths such as /a/?. Composite indexes are lists of properties such as /a ASC.
type IndexUtilization struct {
	UtilizedSingle, PotentialSingle       []string
	UtilizedComposite, PotentialComposite [][]string
}

// IndexProgress returns the build progress of a container's index in percent. IndexProgress returns 100 if the index
// is complete or does not exist.
func (e *Engine) IndexProgress(c *Container) int {
	ix := c.table.DocumentIndex()
	if ix == nil || !e.opts.Builds.Building(ix) {
		return 100
	}
	return min(e.opts.Builds.Progress(ix), 99)
}

// utilization returns the index utilization of a query. uses reports whether the query uses the index.
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
