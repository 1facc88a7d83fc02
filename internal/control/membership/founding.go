// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// IsMember reports whether a store belongs to a node of a cluster: it has a replica of the meta partition.
func IsMember(s *storage.Records) (bool, error) {
	replicas, err := s.Replicas()
	if err != nil {
		return false, err
	}
	for _, r := range replicas {
		if r.Partition == uint64(topology.MetaPartition) {
			return true, nil
		}
	}
	return false, nil
}

// Found makes a store the first node of a cluster, with the data that are in it: it writes the record of the node, a
// meta partition whose only voter it is, and a note for each replica, in one batch. Until that is on disk the node
// stands alone; afterwards it never does again. The cluster begins at the feature level of the store.
func Found(store *storage.Store, self *meta.Node) error {
	scan, _ := meta.Alone(store)
	s, err := meta.Load(scan)
	if err != nil {
		return err
	}
	self.Tokens = []token.Token{token.Min}
	if err := self.Check(); err != nil {
		return err
	}
	next := s.WithNode(self)
	m, err := s.Map.WithLevel(store.Level()).AddMeta([]topology.Place{{Region: self.Region,
		Nodes: []topology.NodeID{self.ID}}})
	if err != nil {
		return err
	}
	if next.Map, err = adopt(m, self.Region, self.ID); err != nil {
		return err
	}
	records, err := s.Difference(next)
	if err != nil {
		return err
	}
	b := store.NewBatch()
	defer b.Close()
	for _, r := range records {
		if r.Value == nil {
			b.Delete(keys.MetaID, r.Key)
		} else {
			b.Set(keys.MetaID, r.Key, r.Value)
		}
	}
	b.Set(keys.MetaID, []byte(keys.MetadataVersionKey), binary.BigEndian.AppendUint64(nil, s.Version+1))
	for p := range next.Map.All() {
		r := p.Sets[0].On(self.ID)
		b.PutReplica(&keys.Replica{Partition: uint64(p.ID), Replica: uint64(r.ID), Created: time.Now().Unix()})
		if p.ID != topology.MetaPartition {
			continue
		}
		birth := keys.NewMeta(uint64(p.ID), keys.Span{Table: keys.MetaID})
		birth.Region = self.Region
		birth.Voters = []keys.Member{{Replica: uint64(r.ID), Node: self.ID}}
		b.PutMeta(&birth)
	}
	if err := b.Commit(); err != nil {
		return err
	}
	return store.Sync()
}

// adopt checks that every replica of a map is on the node.
func adopt(m *topology.Snapshot, region string, node topology.NodeID) (*topology.Snapshot, error) {
	for p := range m.All() {
		if len(p.Sets) != 1 || len(p.Sets[0].Replicas) != 1 || p.Sets[0].Replicas[0].Node != node {
			return nil, fmt.Errorf("partition %d is not on this node alone", p.ID)
		}
		if r := p.Sets[0].Region; r != region {
			return nil, fmt.Errorf("the data are in region %q: start the node with --region %s", r, r)
		}
	}
	return m, nil
}

// ErrNoCluster says that a node is to be one of many and is told neither to found a cluster nor to join one.
var ErrNoCluster = errors.New("the node belongs to no cluster yet: give --bootstrap to found one, or --join HOST:PORT to join one")

// Wanted is what a node is told about its cluster when it starts.
type Wanted struct {
	// Internal says that it has an address for other nodes, Bootstrap that it is to found a cluster, Join that it has
	// addresses to join one by.
	Internal, Bootstrap, Join bool
}

// Check refuses what cannot be: a member does not stand alone again, and a node that is to be one of many has to say
// how it comes into a cluster. found says that the store is to found one.
func Check(store *storage.Store, w Wanted) (found bool, err error) {
	known, err := IsMember(store.Records)
	switch {
	case err != nil:
		return false, err
	case known && !w.Internal:
		return false, errors.New("the data belong to a node of a cluster: give --internal HOST:PORT")
	case known || !w.Internal:
		return false, nil
	}
	// A crash while the replica of the meta partition was being exchanged leaves the others (see
	// reconcile.Local.Return).
	left, err := store.Replicas()
	switch {
	case err != nil:
		return false, err
	case len(left) > 0 && !w.Join:
		return false, errors.New("the node is a member of a cluster whose records it has lost: give --join HOST:PORT to get them again")
	case len(left) > 0:
		return false, nil
	case w.Bootstrap:
		return true, nil
	case !w.Join:
		return false, ErrNoCluster
	}
	scan, _ := meta.Alone(store)
	s, err := meta.Load(scan)
	if err != nil {
		return false, err
	}
	if s.Version > 0 || s.Map.Len() > 0 {
		return false, errors.New("the directory has data of a node that stood alone: only --bootstrap takes them into a cluster; " +
			"to join another one, start on an empty directory")
	}
	return false, nil
}
