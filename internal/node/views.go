// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/view"
)

// entries returns the entries of a row in an index that is being built. For a view these are hints, which update the
// view.
func (n *Node) entries(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([]command.Op, error) {
	if ix.Kind != schema.ViewKind {
		return n.definitions.IndexOps(t, ix, key, clustering, r)
	}
	ks := n.catalog.Snapshot().Keyspace(t.Keyspace)
	if ks == nil {
		return nil, nil // the keyspace was dropped, which also ends the build
	}
	return view.Entries(ks, t, ix, clustering, r)
}
