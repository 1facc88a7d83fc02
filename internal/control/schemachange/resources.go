// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"context"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// Resources returns the users, permissions, and client encryption keys that this node knows, and the version of the
// metadata that contains them.
func (c *Changer) Resources() (r *dbresource.State, version uint64) {
	s := c.Metadata.State()
	return s.Resources, s.Version
}

// ApplyResources makes a change of the users, permissions, and client encryption keys of databases. change receives the
// schema, the present resources, and the version of the metadata after the change, and must be a pure function of them.
// Errors of change are returned unchanged. When ApplyResources returns, the change is durable and in force on all live
// nodes.
func (c *Changer) ApplyResources(ctx context.Context,
	change func(s *schema.Schema, r *dbresource.State, revision uint64) (*dbresource.State, error)) error {
	ctx, cancel := c.Sched.WithTimeout(ctx, c.timeout())
	defer cancel()
	if _, err := c.Metadata.ReadBarrier(ctx); err != nil { // (SC4)
		return changeError("resource was", err)
	}
	state, err := c.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		if err := c.allowsResources(s); err != nil {
			return nil, err
		}
		next, err := change(s.Schema, s.Resources, s.Version+1)
		switch {
		case err != nil:
			return nil, err
		case next == s.Resources:
			return s, nil
		case next.Len() > dbresource.Max && next.Len() > s.Resources.Len():
			return nil, dberr.Invalidf("The cluster cannot have more than %d users, permissions, and client encryption "+
				"keys. Delete unused permissions and users", dbresource.Max)
		}
		return s.WithResources(next), nil
	})
	if err != nil {
		return changeError("resource was", err)
	}
	if c.Member != nil {
		c.Member.AwaitAgreement(ctx, state.Version)
	}
	return nil
}

// allowsResources rejects resources that nodes of older versions would not delete with their database.
func (c *Changer) allowsResources(s *meta.State) error {
	if c.Levels.Of(s) >= feature.DatabaseResources {
		return nil
	}
	return dberr.Invalidf("Users, permissions, and client encryption keys require feature level %d. When all nodes run a "+
		"version that supports them, run \"ilion upgrade\"", feature.DatabaseResources)
}

// withoutDropped returns the resources without the resources of databases that a schema change has dropped.
func withoutDropped(r *dbresource.State, old, next *schema.Schema) *dbresource.State {
	if r.Len() == 0 {
		return r
	}
	for ks := range old.All() {
		if ks.Database == nil {
			continue
		}
		if now := next.Keyspaces[ks.Name]; now == nil || now.Database == nil ||
			now.Database.Number != ks.Database.Number {
			r = r.WithoutDatabase(ks.Database.Number)
		}
	}
	return r
}
