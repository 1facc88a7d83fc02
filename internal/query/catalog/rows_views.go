// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// ViewLag is how far a view is behind what was written to the partitions that this node leads of its base table.
type ViewLag struct {
	// Due is the number of rows, or ranges of rows, that the view has yet to follow; Oldest is when the first of them
	// was written, in microseconds since the epoch, 0 if there is none.
	Due, Oldest int64
}

// views calls fn for every view with its base table, and says whether it is built.
func (b *builder) views(fn func(base, view *schema.Table, ix *schema.Index, built bool)) {
	var state *meta.State
	if b.info.Records != nil {
		state = b.info.Records()
	}
	for ks := range b.schema.All() {
		if !b.wants(ks.Name) {
			continue
		}
		for _, v := range ks.SortedTables() {
			base := ks.Tables[baseOf(v)]
			if base == nil {
				continue
			}
			if ix := base.Hints(v.Name); ix != nil {
				fn(base, v, ix, state == nil || !state.Building[ix.ID])
			}
		}
	}
}

func fillBuiltViews(b *builder) {
	b.views(func(_, view *schema.Table, _ *schema.Index, built bool) {
		if built {
			b.add(values{"keyspace_name": text(view.Keyspace), "view_name": text(view.Name),
				"status_replicated": boolean(true)})
		}
	})
}

// fillViewBuilds has no tokens: a build goes round the whole ring, and where it is ilion.views says.
func fillViewBuilds(b *builder) {
	b.views(func(_, view *schema.Table, _ *schema.Index, built bool) {
		if !built {
			b.add(values{"keyspace_name": text(view.Keyspace), "view_name": text(view.Name), "start_token": text(""),
				"end_token": text("")})
		}
	})
}

func fillViewLags(b *builder) {
	lags := map[uint32]ViewLag{}
	if b.info.ViewLags != nil {
		lags = b.info.ViewLags()
	}
	b.views(func(base, view *schema.Table, ix *schema.Index, built bool) {
		v := values{"keyspace_name": text(view.Keyspace), "view_name": text(view.Name),
			"base_table_name": text(base.Name), "built": boolean(built)}
		lag := lags[ix.ID]
		v["due"] = bigint(lag.Due)
		if lag.Oldest != 0 {
			v["oldest"] = bigint(lag.Oldest / 1000)
		}
		b.add(v)
	})
}
