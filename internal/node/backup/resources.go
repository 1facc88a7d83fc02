// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"math/rand/v2"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/container"
)

// databases are the numbers of a database in the backup and of the database to which its containers are restored.
type databases struct{ from, to uint32 }

// withResources returns a state with the client encryption keys, the users, and the permissions of the databases whose
// containers have been restored. Existing resources are kept. Permissions on other containers are not restored.
// Earlier resource tokens are not valid for the restored permissions, which have other numbers and nonces.
func withResources(s, from *meta.State, tables []archive.RestoredTable, level feature.Level) *meta.State {
	if from.Resources.Len() == 0 || level < feature.DatabaseResources {
		return s
	}
	moves := map[databases]map[container.Address]container.Address{}
	for i := range tables {
		t := &tables[i]
		old, now := from.Schema.Keyspaces[t.Keyspace], s.Schema.Keyspaces[t.NewKeyspace]
		was, is := from.Schema.Table(t.Keyspace, t.Name), s.Schema.Table(t.NewKeyspace, t.NewName)
		if was == nil || is == nil || is.Container == nil || old.Database == nil || now.Database == nil {
			continue
		}
		pair := databases{old.Database.Number, now.Database.Number}
		if moves[pair] == nil {
			moves[pair] = map[container.Address]container.Address{}
		}
		moves[pair][container.Address{Database: pair.from, Table: was.ID}] =
			container.Address{Database: pair.to, Table: is.ID}
	}
	r := restoredResources{from: from.Resources, state: s.Resources, revision: s.Version + 1}
	for pair, containers := range moves {
		r.add(dbresource.Parent{Kind: dbresource.EncryptionKey, Database: pair.from}, pair.to, 0, nil)
		r.add(dbresource.Parent{Kind: dbresource.User, Database: pair.from}, pair.to, 0, nil)
		for _, user := range r.from.List(dbresource.Parent{Kind: dbresource.User, Database: pair.from}) {
			now := r.state.Find(dbresource.Parent{Kind: dbresource.User, Database: pair.to}, user.ID)
			r.add(dbresource.Parent{Kind: dbresource.Permission, Database: pair.from, Owner: user.Number}, pair.to,
				now.Number, containers)
		}
	}
	return s.WithResources(r.state)
}

// restoredResources adds the resources of a backup to a state.
type restoredResources struct {
	from, state *dbresource.State
	revision    uint64
}

// add adds the resources of a list that the database with the number to does not have. owner is the new number of the
// user to which permissions belong.
func (r *restoredResources) add(list dbresource.Parent, to, owner uint32,
	containers map[container.Address]container.Address) {
	parent := dbresource.Parent{Kind: list.Kind, Database: to, Owner: owner}
	var all []*dbresource.Resource
	for _, old := range r.from.List(list) {
		fresh, ok := *old, list.Kind != dbresource.Permission
		for from, to := range containers {
			if !ok {
				fresh, ok = container.Moved(old, from, to)
			}
		}
		for other := range r.state.All(parent) {
			ok = ok && other.ID != old.ID &&
				(list.Kind != dbresource.Permission || !other.Grant.SameResource(fresh.Grant))
		}
		if !ok {
			continue
		}
		fresh.Parent, fresh.Number, fresh.Revision, fresh.Nonce = parent, 0, r.revision, rand.Uint64()
		all = append(all, &fresh)
	}
	r.state = r.state.WithAll(all)
}
