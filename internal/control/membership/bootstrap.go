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

// IsMember reports whether a store belongs to a cluster node, which has a replica of the meta partition.
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

// Bootstrap makes a store the first node of a cluster and keeps the data of the store. One batch writes the node's
// record, a meta partition with this node as the only voter, and the member lists of all replicas. When the batch is on
// disk, the node can never become standalone again. The cluster starts at the feature level of the store.
func Bootstrap(store *storage.Store, self *meta.Node) error {
	scan, _ := meta.Standalone(store)
	s, err := meta.Load(scan)
	if err != nil {
		return err
	}
	self.Tokens = []token.Token{token.Min}
	if err := self.Check(); err != nil {
		return err
	}
	next := s.WithNode(self)
	m, err := s.Topology.WithLevel(store.Level()).AddMeta([]topology.Place{{Region: self.Region,
		Nodes: []topology.NodeID{self.ID}}})
	if err != nil {
		return err
	}
	if next.Topology, err = checkReplicas(m, self.Region, self.ID); err != nil {
		return err
	}
	records, err := s.Diff(next)
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
	for p := range next.Topology.All() {
		r := p.SetOn(self.ID).On(self.ID)
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

// checkReplicas returns an error unless all replicas are on the node.
func checkReplicas(m *topology.Snapshot, region string, node topology.NodeID) (*topology.Snapshot, error) {
	for p := range m.All() {
		set := p.SetOn(node)
		if set == nil || len(set.Replicas) != 1 || len(p.Sets) != 1 {
			return nil, fmt.Errorf("partition %d has replicas on other nodes", p.ID)
		}
		if r := set.Region; r != region {
			return nil, fmt.Errorf("the data belongs to region %q: start the node with --region %s", r, r)
		}
	}
	return m, nil
}

// ErrNoCluster means that a node with an internal address has no option to create or join a cluster.
var ErrNoCluster = errors.New("cannot start node: it does not belong to a cluster. Use --bootstrap to create one or " +
	"--join HOST:PORT to join one")

// StartOptions holds the cluster options with which a node starts.
type StartOptions struct {
	// Internal reports whether the node has an address for other nodes. Bootstrap reports whether the node may create a
	// cluster. Join reports whether the node has addresses to join a cluster.
	Internal, Bootstrap, Join bool
}

// CheckStart rejects invalid starts. A member cannot become standalone again, and a cluster node must create or join a
// cluster. found reports whether the store must create a cluster.
func CheckStart(store *storage.Store, w StartOptions) (found bool, err error) {
	known, err := IsMember(store.Records)
	switch {
	case err != nil:
		return false, err
	case known && !w.Internal:
		return false, errors.New("the data belongs to a cluster node: specify --internal HOST:PORT")
	case known || !w.Internal:
		return false, nil
	}
	// A crash during the replacement of the meta partition's replica leaves a store with other replicas only (see
	// reconcile.LocalReconciler.Rejoin).
	left, err := store.Replicas()
	switch {
	case err != nil:
		return false, err
	case len(left) > 0 && !w.Join:
		return false, errors.New("the node is a member of a cluster but has no metadata: specify --join HOST:PORT " +
			"to fetch it")
	case len(left) > 0:
		return false, nil
	case w.Bootstrap:
		return true, nil
	case !w.Join:
		return false, ErrNoCluster
	}
	scan, _ := meta.Standalone(store)
	s, err := meta.Load(scan)
	if err != nil {
		return false, err
	}
	if s.Version > 0 || s.Topology.Len() > 0 {
		return false, errors.New("the directory contains data of a standalone node: use --bootstrap to keep it in a " +
			"new cluster; to join an existing cluster, start on an empty directory")
	}
	return false, nil
}
