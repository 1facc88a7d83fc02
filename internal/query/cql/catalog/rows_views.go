// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// ViewLag describes the lag of a view for the base table partitions that this node leads.
type ViewLag struct {
	// Due is the number of rows and row ranges that have not been applied to the view. Oldest is the time of the oldest
	// of these writes in microseconds since the Unix epoch, or 0.
	Due, Oldest int64
}

// views calls fn for every view and its base table. built reports whether the view is complete.
func (b *builder) views(fn func(base, view *schema.Table, ix *schema.Index, built bool)) {
	var state *meta.State
	if b.info.Metadata != nil {
		state = b.info.Metadata
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

// fillViewBuilds fills the table of view builds. It does not set tokens, because a build covers the whole ring. The
// table ilion.views contains the progress of a build.
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
	if b.info.Statistics != nil {
		lags = b.info.Statistics.ViewLags()
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
