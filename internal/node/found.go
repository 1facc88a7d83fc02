// SPDX-License-Identifier: Apache-2.0

package node

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

// member reports whether the store belongs to a node of a cluster: it has a replica of the meta partition.
func member(s *storage.Store) (bool, error) {
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

// found makes the store the first node of a cluster, with the data that are in it: it writes the record of the node, a meta partition whose
// only voter it is, and a note for each replica, in one batch. Until that is on disk the node stands alone; afterwards it never
// does again.
func (n *Node) found() error {
	scan, _ := meta.Alone(n.store)
	s, err := meta.Load(scan)
	if err != nil {
		return err
	}
	id := n.store.Identity()
	self := n.record(token.Min)
	if err := self.Check(); err != nil {
		return err
	}
	next := s.WithNode(self)
	next.ClusterVersion = n.format
	m, err := s.Map.AddMeta([]topology.Place{{Region: n.opts.DataCenter, Nodes: []topology.NodeID{id.Node}}})
	if err != nil {
		return err
	}
	if next.Map, err = adopt(m, n.opts.DataCenter, id.Node); err != nil {
		return err
	}
	records, err := s.Difference(next)
	if err != nil {
		return err
	}
	b := n.store.NewBatch()
	defer b.Close()
	for _, r := range records {
		if r.Value == nil {
			b.Delete(keys.MetaID, r.Key)
		} else {
			b.Set(keys.MetaID, r.Key, r.Value)
		}
	}
	b.Set(keys.MetaID, []byte(keys.RecordsVersion), binary.BigEndian.AppendUint64(nil, s.Version+1))
	for p := range next.Map.All() {
		r := p.Sets[0].On(id.Node)
		b.PutReplica(&keys.Replica{Partition: uint64(p.ID), Replica: uint64(r.ID), Created: time.Now().Unix()})
		if p.ID != topology.MetaPartition {
			continue
		}
		birth := keys.NewMeta(uint64(p.ID), keys.Span{Table: keys.MetaID})
		birth.Voters = []keys.Member{{Replica: uint64(r.ID), Node: id.Node}}
		b.PutMeta(&birth)
	}
	if err := b.Commit(); err != nil {
		return err
	}
	return n.store.Sync()
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

var errNoCluster = errors.New("the node belongs to no cluster yet: give --bootstrap to found one, or --join HOST:PORT to join one")

// checkMembership founds a cluster if that is to be done, and refuses what cannot be: a member does not stand alone again, and a node that
// stands alone has to say how it comes into a cluster.
func (n *Node) checkMembership() error {
	known, err := member(n.store)
	if err != nil {
		return err
	}
	if id := n.store.Identity().Node; n.nodeID != nil && *n.nodeID != id {
		return fmt.Errorf("the certificate in cluster.tls is for node %x, the data are those of node %x", *n.nodeID, id)
	}
	c := &n.opts.Cluster
	switch {
	case known && c.Internal == "":
		return errors.New("the data belong to a node of a cluster: give --internal HOST:PORT")
	case known || c.Internal == "":
		return nil
	}
	// A crash while the replica of the meta partition was being exchanged leaves the others behind (see comeBack).
	left, err := n.store.Replicas()
	switch {
	case err != nil:
		return err
	case len(left) > 0 && len(c.Join) == 0:
		return errors.New("the node is a member of a cluster whose records it has lost: give --join HOST:PORT to get them again")
	case len(left) > 0:
		return nil
	case c.Bootstrap:
		return n.found()
	case len(c.Join) == 0:
		return errNoCluster
	}
	scan, _ := meta.Alone(n.store)
	s, err := meta.Load(scan)
	if err != nil {
		return err
	}
	if s.Version > 0 || s.Map.Len() > 0 {
		return errors.New("the directory has data of a node that stood alone: only --bootstrap takes them into a cluster; to join another one, start on an empty directory")
	}
	return nil
}
