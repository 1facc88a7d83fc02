// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// skipped is the number of skipped IDs, which may have been assigned and are missing from the metadata (RV5).
const skipped = 1 << 20

// buildTopology creates the metadata of the remaining cluster, which consists of the members and a topology of the
// survivors' partitions. Partitions with new members have no pending splits or merges. The spans reflect completed
// splits and merges, and all other splits and merges are canceled.
func (p *planner) buildTopology() error {
	p.nextPartition, p.nextReplica = p.firstIDs()
	next := p.base
	for _, n := range p.base.Nodes {
		if p.lost[n.ID] {
			left := *n
			left.State = meta.Left
			next = next.WithNode(&left)
		}
	}
	next = next.WithSetting(membership.FormerClusterSetting(p.plan.Cluster), p.plan.Made.Format(time.RFC3339))
	tables := map[uint32][]*topology.Partition{}
	for _, table := range p.base.Topology.Tables() {
		ps, err := p.buildTable(table, next)
		if err != nil {
			return err
		}
		tables[table] = ps
	}
	m, err := p.base.Topology.Recovered(tables, p.buildMeta(), p.nextPartition, p.nextReplica)
	if err != nil {
		return fmt.Errorf("cannot build a topology from the survivors: %w. Restore a backup", err)
	}
	p.addWarnings()
	p.sortGroups()
	return p.newRecords(next.WithTopology(m))
}

// firstIDs returns IDs above all IDs in the topology and on the survivors.
func (p *planner) firstIDs() (topology.PartitionID, topology.ReplicaID) {
	partition, replica := uint64(p.base.Topology.NextPartition()), uint64(p.base.Topology.NextReplica())
	take := func(id uint64, members ...[]keys.Member) {
		if id != keys.MetaPartition {
			partition = max(partition, id+1)
		}
		for _, m := range slices.Concat(members...) {
			replica = max(replica, m.Replica+1)
		}
	}
	for _, s := range p.states {
		for i := range s.Replicas {
			r := &s.Replicas[i]
			take(r.Partition, []keys.Member{{Replica: r.Replica}}, r.meta.Voters, r.meta.Learners,
				r.meta.VotersOutgoing,
				r.meta.LearnersNext)
			for _, c := range r.meta.Children {
				take(c.Partition)
			}
		}
	}
	for id, f := range p.found {
		take(id, f.meta.Voters, f.meta.Learners)
	}
	if p.force {
		partition, replica = partition+skipped, replica+skipped
	}
	return topology.PartitionID(partition), topology.ReplicaID(replica)
}

// buildMeta returns the meta partition of the topology.
func (p *planner) buildMeta() *topology.Partition {
	g := p.found[keys.MetaPartition].group
	for _, list := range [2][]Member{g.Votes, g.Learns} {
		for i := range list {
			if list[i].Replica == 0 {
				list[i].Replica = uint64(p.newReplica())
			}
		}
	}
	part := *p.base.Topology.Meta()
	part.Moves++
	part.Reason, part.Pin = nil, nil
	p.plan.Region = topology.MetaSet(p.base.Topology).Region
	part.Sets = []topology.ReplicaSet{setOf(p.plan.Region, g)}
	return &part
}

func (p *planner) newReplica() topology.ReplicaID {
	p.nextReplica++
	return p.nextReplica - 1
}

// setOf returns a replica set with new members.
func setOf(region string, g *Group) topology.ReplicaSet {
	set := topology.ReplicaSet{Region: region, Leader: topology.ReplicaID(g.Votes[0].Replica)}
	for _, m := range g.Votes {
		set.Replicas = append(set.Replicas, topology.Replica{ID: topology.ReplicaID(m.Replica),
			Node: topology.NodeID(m.Node)})
	}
	for _, m := range g.Learns {
		set.Replicas = append(set.Replicas, topology.Replica{ID: topology.ReplicaID(m.Replica),
			Node: topology.NodeID(m.Node), State: topology.Learner})
	}
	return set
}

// buildTable returns the partitions of a table, which are the partitions on survivors and empty partitions for the rest
// of the ring.
func (p *planner) buildTable(table uint32, next *meta.State) ([]*topology.Partition, error) {
	var ps []*topology.Partition
	skip := map[uint64]bool{} // partitions that are taken from the topology instead of the replicas
	for _, part := range p.base.Topology.Partitions(table) {
		if p.keeps(part) {
			ps = append(ps, part)
			skip[uint64(part.ID)] = true
			if part.Split != nil {
				skip[uint64(part.Split.Child)] = true
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.found)) {
		f := p.found[id]
		if f.meta.Span.Table != table || skip[id] {
			continue
		}
		part, err := p.buildPartition(topology.PartitionID(id), f)
		if err != nil {
			return nil, err
		}
		ps = append(ps, part)
	}
	slices.SortFunc(ps, func(a, b *topology.Partition) int { return a.Span.Begin.Compare(b.Span.Begin) })
	return p.fill(table, ps, next)
}

// keeps reports whether a partition remains unchanged in the topology. The replica sets of the partition and its merge
// partner must have a quorum.
func (p *planner) keeps(part *topology.Partition) bool {
	f := p.found[uint64(part.ID)]
	if f == nil && p.absorbed[uint64(part.ID)] && part.Merge != nil { // the topology lacks the completed merge
		f = p.found[uint64(part.Merge.Left)]
	}
	return f != nil && f.group != nil && !f.group.Forced
}

// buildPartition returns the partition of a replica set with new members.
func (p *planner) buildPartition(id topology.PartitionID, f *found) (*topology.Partition, error) {
	span, err := topology.SpanOf(f.meta.Span)
	if err != nil {
		return nil, fmt.Errorf("partition %d: %w", id, err)
	}
	if f.newborn && !p.placeChild(uint64(id), f) {
		return nil, fmt.Errorf("partition %d was split off from a missing partition: restore a backup", id)
	}
	part := topology.Partition{ID: id, Table: f.meta.Span.Table, Level: f.meta.Feature}
	region := f.meta.Region
	if was := p.base.Topology.Partition(id); was != nil {
		part = *was
		if home := topology.HomeSet(p.base.Topology, was); home != nil && was.Set(region) == nil {
			region = home.Region
		}
	}
	if n := len(f.meta.Parents); n > 0 {
		part.Parent = topology.PartitionID(f.meta.Parents[n-1].Partition)
	}
	part.Span, part.Epoch = span, f.meta.Epoch
	if f.group.Thaw != nil {
		part.Epoch++
	}
	part.Moves++
	part.Split, part.Merge, part.Reason, part.Pin = nil, nil, nil, nil
	if p.lost[part.Lead] {
		part.Lead = topology.NodeID{}
	}
	set := setOf(region, f.group)
	part.Sets = slices.Clone(part.Sets)
	if old := part.Set(region); old != nil {
		*old = set
	} else {
		part.Sets = append(part.Sets, set)
	}
	return &part, nil
}

// placeChild chooses the members of a child whose split is in the parent's log but not applied. These are the members
// on the nodes of the parent's new members. placeChild reports whether such members exist. The log will contain no
// other members (see rewriteMembers).
func (p *planner) placeChild(id uint64, f *found) bool {
	of := p.found[f.meta.Parents[0].Partition]
	if of == nil || of.group == nil {
		return false
	}
	parent := of.group
	g := *parent
	g.Partition, g.Last, g.Thaw, g.Votes, g.Learns = id, f.meta.Applied, nil, nil, nil
	beside := func(members []Member) (out []Member) {
		for _, m := range slices.Concat(f.meta.Voters, f.meta.Learners) {
			if slices.ContainsFunc(members, func(o Member) bool { return o.Node == ID(m.Node) }) {
				out = append(out, Member{m.Replica, ID(m.Node)})
			}
		}
		return out
	}
	g.Votes, g.Learns = beside(parent.Votes), beside(parent.Learns)
	f.group = &g
	return len(g.Votes) > 0
}

// fill completes the ring of a table.
func (p *planner) fill(table uint32, ps []*topology.Partition, next *meta.State) ([]*topology.Partition, error) {
	var out []*topology.Partition
	at := topology.Position{}
	var failed error
	gap := func(until topology.Position) {
		pieces, err := p.pieces(table, topology.Span{Begin: at, Limit: until}, next)
		out, failed = append(out, pieces...), cmp.Or(failed, err)
	}
	for i, part := range ps {
		c := part.Span.Begin.Compare(at)
		if i > 0 && (at.IsZero() || c < 0) {
			return nil, fmt.Errorf("partitions %d and %d of %s overlap at %s: restore a backup",
				ps[i-1].ID, part.ID, p.name(table), part.Span.Begin)
		}
		if c > 0 {
			gap(part.Span.Begin)
		}
		out = append(out, part)
		at = part.Span.Limit
	}
	if len(ps) == 0 || !at.IsZero() {
		gap(topology.Position{})
	}
	return out, failed
}

// pieces returns empty partitions for a gap, with the boundaries and regions of the previous topology. The home region
// must have a survivor.
func (p *planner) pieces(table uint32, gap topology.Span, next *meta.State) (out []*topology.Partition, err error) {
	for _, was := range p.base.Topology.Partitions(table) {
		if !was.Span.Overlaps(gap) {
			continue
		}
		span := was.Span
		if span.Begin.Compare(gap.Begin) < 0 {
			span.Begin = gap.Begin
		}
		if !gap.Limit.IsZero() && (span.Limit.IsZero() || span.Limit.Compare(gap.Limit) > 0) {
			span.Limit = gap.Limit
		}
		part := &topology.Partition{ID: p.nextPartition, Table: table, Span: span, Epoch: keys.InitialEpoch,
			Level: next.Topology.Level()}
		p.nextPartition++
		home := topology.HomeSet(p.base.Topology, was)
		for i := range was.Sets {
			set := topology.ReplicaSet{Region: was.Sets[i].Region}
			for _, node := range p.homes(next, set.Region, uint64(part.ID)) {
				set.Replicas = append(set.Replicas, topology.Replica{ID: p.newReplica(), Node: node})
			}
			switch {
			case len(set.Replicas) > 0:
				set.Leader = set.Replicas[0].ID
				part.Sets = append(part.Sets, set)
			case home == nil || &was.Sets[i] == home:
				return nil, fmt.Errorf("no remaining node is in region %q, which held partition %d of %s: restore a "+
					"backup", set.Region, was.ID, p.name(table))
			}
		}
		out = append(out, part)
		width := float64(span.Limit.Ring-span.Begin.Ring) / (1 << 64)
		if span.Begin.Ring == span.Limit.Ring && span.Limit.IsZero() {
			width = 1
		}
		p.plan.Pieces = append(p.plan.Pieces, Piece{Name: p.name(table), Partition: uint64(was.ID), Span: span.String(),
			Share: width})
		p.plan.Groups = append(p.plan.Groups, Group{Partition: uint64(was.ID), Table: table, Name: p.name(table),
			Loss:   Gone,
			Voters: was.Set(part.Sets[0].Region).Voters()})
	}
	return out, nil
}

// homes returns the nodes of an empty partition, in rotation. The number of nodes is the same as for a new partition.
func (p *planner) homes(next *meta.State, region string, turn uint64) (out []topology.NodeID) {
	var all []topology.NodeID
	for _, n := range next.Nodes {
		if n.Region == region && n.State != meta.Left {
			all = append(all, n.ID)
		}
	}
	for i := range min(max(placement.EffectiveReplicas(next, region), 1), len(all)) {
		out = append(out, all[(turn+uint64(i))%uint64(len(all))])
	}
	return out
}

// name returns the readable name of a table.
func (p *planner) name(table uint32) string {
	if t := p.base.Schema.TableByID(table); t != nil {
		return t.String()
	}
	if name := p.stored[table]; name != "" {
		return name
	}
	return fmt.Sprintf("table %d", table)
}

// newRecords computes the new records of the meta partition.
func (p *planner) newRecords(next *meta.State) error {
	changes, err := p.base.Diff(next)
	if err != nil {
		return err
	}
	values := map[string][]byte{}
	for _, r := range p.found[keys.MetaPartition].holders[0].survey.Records {
		values[string(r.Key)] = r.Value
	}
	for _, r := range changes {
		if r.Value == nil {
			delete(values, string(r.Key))
		} else {
			values[string(r.Key)] = r.Value
		}
	}
	p.plan.Version++
	p.plan.Records = (&records{values: values}).list()
	return nil
}

// addWarnings adds warnings about tables that have no groups.
func (p *planner) addWarnings() {
	unknown := map[uint32]bool{}
	for id, f := range p.found {
		if t := f.meta.Span.Table; id != keys.MetaPartition && p.base.Topology.Partitions(t) == nil {
			unknown[t] = true
			delete(p.found, id)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(unknown)) {
		p.plan.Warnings = append(p.plan.Warnings, fmt.Sprintf("table %d is not in the remaining metadata: it was "+
			"dropped, or "+
			"was created after this metadata. The nodes delete its data when they start.", t))
	}
	slices.SortFunc(p.plan.Pieces, func(a, b Piece) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Partition, b.Partition))
	})
}
