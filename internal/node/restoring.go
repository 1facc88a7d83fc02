// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// restoringTables holds the names of the settings of tables that are being restored in one metadata state.
type restoringTables struct {
	of    *meta.State
	names map[string]bool
}

// restoring reports whether a table is being restored from a backup. If none is, the check compares two pointers.
func (n *Node) restoring(t *schema.Table) bool {
	state, known := n.metadata.State(), n.restores.Load()
	if known == nil || known.of != state {
		known = &restoringTables{state, state.Restoring()}
		n.restores.Store(known)
	}
	return len(known.names) > 0 && known.names[meta.RestoreSetting(t.Keyspace, t.Name)]
}

// uniquePause is the pause between checks whether the indexes of unique keys are complete.
const uniquePause = 50 * time.Millisecond

// awaitUnique waits until the indexes of the unique keys of restored containers are complete. Before that, two items
// could have the same values.
func (n *Node) awaitUnique(ctx context.Context, tables []archive.RestoredTable) error {
	for i := range tables {
		for {
			t := n.metadata.State().Schema.Table(tables[i].NewKeyspace, tables[i].NewName)
			if t == nil {
				return fmt.Errorf("table %s.%s was dropped during the restore", tables[i].NewKeyspace,
					tables[i].NewName)
			}
			if !slices.ContainsFunc(t.SortedIndexes(), func(ix *schema.Index) bool {
				return ix.Kind == schema.UniqueKind && n.builder.Building(ix)
			}) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the unique keys of %s are still being indexed: run the same command again to resume: %w", t,
					ctx.Err())
			case <-time.After(uniquePause):
			}
		}
	}
	return nil
}
