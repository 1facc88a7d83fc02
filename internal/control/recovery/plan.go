// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Plan is what is to be done in all directories.
type Plan struct {
	// Cluster is the one that was, Next what the survivors become.
	Cluster, Next ID
	Made          time.Time
	// Nodes are the survivors, Lost the members that are given up.
	Nodes []Survivor
	Lost  []Node
	// Groups are the replica sets of all partitions, those with the greatest loss first.
	Groups []Group
	// Pieces are the spans whose rows are gone.
	Pieces []Piece
	// Records are those of the meta partition at Version; it begins anew with them after the entry Index, in Term.
	Version     uint64
	Records     []Record
	Index, Term uint64
	// Region is that of the meta partition.
	Region string
	// Warnings are said to people.
	Warnings []string
}

// Node is a member.
type Node struct {
	Node     ID
	Internal string
}

// Survivor is a node whose directory the plan is for.
type Survivor struct {
	Node
	Dir string
	// Survey is the fingerprint of what the plan was made from.
	Survey string
}

// Loss is what a replica set has lost, the worst last.
type Loss string

// The losses.
const (
	// Whole: the survivors have a quorum. Nothing is done to such a set, unless the cluster's records are Behind.
	Whole Loss = "whole"
	// Complete: the quorum is lost, and everything acknowledged is on a survivor.
	Complete Loss = "complete"
	// Behind: what was acknowledged may be lost that came after the end of the longest log.
	Behind Loss = "behind"
	// Gone: no replica is left.
	Gone Loss = "gone"
)

var losses = []Loss{Whole, Complete, Behind, Gone}

// Group is a replica set, and what becomes of it.
type Group struct {
	Partition uint64
	Table     uint32
	// Name is that of the table, keyspace and all, where the records know it.
	Name string
	Loss Loss
	// Voters is how many there were, Left how many of them survive.
	Voters, Left int
	// Longest is the node with the longest log, which ends at Last; Newest is the newest write in it, in microseconds.
	Longest ID
	Last    uint64
	Newest  int64
	// Forced says that the members are set: Votes and Learns.
	Forced        bool
	Votes, Learns []Member
	// Thaw, if not nil, is an entry that is added to the longest log: it takes back that the partition is frozen.
	Thaw *Thaw
	// Schema is the newest revision of the table that the records know.
	Schema uint64
}

// Thaw is an entry with one command.
type Thaw struct{ Index, Term, Epoch uint64 }

// Member is a replica and its node.
type Member struct {
	Replica uint64
	Node    ID
}

// Piece is a span of a table whose rows are gone: an empty partition takes its place.
type Piece struct {
	Name      string
	Partition uint64
	Span      string
	// Share is its part of the ring, of 1.
	Share float64
}

// planner makes a plan.
type planner struct {
	states []*NodeState
	base   *meta.State
	plan   *Plan
	lost   map[topology.NodeID]bool
	// stored are the names of tables that are in no schema of the records.
	stored map[uint32]string
	// found are the partitions that a survivor has, by id; absorbed are those that others have taken the spans of.
	found    map[uint64]*found
	absorbed map[uint64]bool
	// force has all sets get new members: the records, which say who they are, may be old.
	force         bool
	nextPartition topology.PartitionID
	nextReplica   topology.ReplicaID
}

// found is a partition of which something is left.
type found struct {
	holders []holder // the longest log first; none for one that is yet to be born
	outcome
	// newborn says that it is in the log of its parent alone.
	newborn bool
	group   *Group
}

// Make plans the recovery of a cluster out of the surveys of all survivors. lost names the members that are given up,
// each by the beginning of its identity; stored has the names of tables that every cluster has. Errors say what is
// missing.
func Make(surveys []*NodeState, lost []string, stored map[uint32]string, now time.Time) (*Plan, error) {
	p := &planner{states: slices.Clone(surveys), stored: stored, lost: map[topology.NodeID]bool{},
		found:    map[uint64]*found{},
		absorbed: map[uint64]bool{}, plan: &Plan{Made: now.UTC().Truncate(time.Second)}}
	slices.SortFunc(p.states, func(a, b *NodeState) int { return bytes.Compare(a.Node[:], b.Node[:]) })
	for _, step := range []func() error{
		p.checkStates, p.find, p.readRecords, func() error { return p.checkMembers(lost) }, p.assess, p.buildTopology,
		p.recordFingerprints,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	_, _ = rand.Read(p.plan.Next[:]) // never fails
	return p.plan, nil
}

// checkStates refuses what does not go together.
func (p *planner) checkStates() error {
	if len(p.states) == 0 {
		return errors.New("no survey")
	}
	p.plan.Cluster = p.states[0].Cluster
	for i, s := range p.states {
		if s.Cluster != p.plan.Cluster {
			return fmt.Errorf("the nodes %s and %s are of two clusters", p.states[0].Node.Short(), s.Node.Short())
		}
		if i > 0 && s.Node == p.states[i-1].Node {
			return fmt.Errorf("there are two surveys of node %s: give the newer one", s.Node.Short())
		}
		if err := s.decode(); err != nil {
			return err
		}
	}
	return nil
}

// find collects the replicas of each partition, and settles the longest log of each.
func (p *planner) find() error {
	for _, s := range p.states {
		for i := range s.Replicas {
			r := &s.Replicas[i]
			if len(r.Meta) == 0 || r.Partition == keys.MetaPartition && s.Version == 0 {
				continue
			}
			f := p.found[r.Partition]
			if f == nil {
				f = &found{}
				p.found[r.Partition] = f
			}
			f.holders = append(f.holders, holder{s, r})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.found)) {
		f := p.found[id]
		slices.SortFunc(f.holders, longestFirst)
		o, err := replayTail(f.holders[0].survey, f.holders[0].replica)
		if err != nil {
			return err
		}
		f.outcome = *o
		for _, child := range o.born {
			if p.found[child.Partition] == nil {
				p.found[child.Partition] = &found{outcome: outcome{meta: child}, newborn: true}
			}
		}
		for _, a := range f.meta.Absorbed {
			p.absorbed[a.Partition] = true
		}
	}
	maps.DeleteFunc(p.found, func(id uint64, _ *found) bool { return p.absorbed[id] })
	return nil
}

// readRecords takes the records of the longest log of the meta partition.
func (p *planner) readRecords() error {
	f := p.found[keys.MetaPartition]
	if f == nil {
		return errors.New("no survivor has the records of the cluster, its schema and its map: only a backup helps (ilion restore)")
	}
	s := f.holders[0].survey
	p.plan.Version = s.Version
	p.plan.Index, p.plan.Term = f.holders[0].replica.Last+1, 0
	for _, h := range f.holders {
		p.plan.Term = max(p.plan.Term, h.replica.Term+1)
	}
	var err error
	p.base, err = meta.Load(func(fn func(key, value []byte) error) (uint64, error) {
		for _, r := range s.Records {
			if err := fn(r.Key, r.Value); err != nil {
				return 0, err
			}
		}
		return s.Version, nil
	})
	if err != nil {
		return fmt.Errorf("the records of node %s: %w", s.Node.Short(), err)
	}
	return nil
}

// checkMembers has every member be one that was surveyed, or one that is named as lost.
func (p *planner) checkMembers(lost []string) error {
	surveyed := map[topology.NodeID]*NodeState{}
	for _, s := range p.states {
		surveyed[topology.NodeID(s.Node)] = s
		if n := p.base.Node(topology.NodeID(s.Node)); n == nil || n.State == meta.Left {
			return fmt.Errorf("node %s is no member, by the newest records that are left: leave its survey out, and start it on an "+
				"empty directory when the others run", s.Node.Short())
		}
	}
	for _, name := range lost {
		n, err := membership.Find(p.base, name)
		if err != nil {
			return fmt.Errorf("--lost: %w", err)
		}
		if s := surveyed[n.ID]; s != nil {
			return fmt.Errorf("node %s is named as lost, and there is a survey of it (%s)", n.ID.Short(), s.Dir)
		}
		p.lost[n.ID] = true
	}
	var missing []string
	for _, n := range p.base.Nodes {
		node := Node{ID(n.ID), n.Internal}
		switch {
		case n.State == meta.Left:
		case p.lost[n.ID]:
			p.plan.Lost = append(p.plan.Lost, node)
		case surveyed[n.ID] == nil:
			missing = append(missing, fmt.Sprintf("%s (%s)", n.ID.Short(), n.Internal))
		default:
			p.plan.Nodes = append(p.plan.Nodes, Survivor{Node: node, Dir: surveyed[n.ID].Dir})
		}
	}
	if len(missing) == 0 && len(p.plan.Lost) == 0 {
		return errors.New("no member is lost: start the nodes")
	}
	if len(missing) > 0 {
		return fmt.Errorf("there is no survey of %s: survey each member whose disk is left, and name each whose disk is lost for ever "+
			"with --lost", list(missing))
	}
	return nil
}

// list joins names for people.
func list(names []string) string {
	if len(names) == 1 {
		return "node " + names[0]
	}
	text := "the nodes "
	for i, n := range names {
		switch i {
		case 0:
		case len(names) - 1:
			text += " and "
		default:
			text += ", "
		}
		text += n
	}
	return text
}

// assess finds out what each replica set has lost, and what becomes of it.
func (p *planner) assess() error {
	for id, f := range p.found {
		if !f.newborn {
			f.group = p.describeGroup(id, f)
		}
	}
	records := p.found[keys.MetaPartition].group
	p.force = records.Loss == Behind
	bad := false
	for _, f := range p.found {
		bad = bad || !f.newborn && f.group.Loss != Whole
	}
	for part := range p.base.Topology.All() {
		bad = bad || p.found[uint64(part.ID)] == nil && !p.absorbed[uint64(part.ID)]
	}
	if !bad {
		return errors.New("every replica set has a quorum among these nodes: start them, and decommission those that are lost " +
			"(ilion node decommission)")
	}
	for id, f := range p.found {
		if !f.newborn {
			p.forceOf(id, f)
		}
	}
	return nil
}

// recordFingerprints notes what each directory has now.
func (p *planner) recordFingerprints() (err error) {
	forced := p.plan.forced()
	for i := range p.plan.Nodes {
		n := &p.plan.Nodes[i]
		for _, s := range p.states {
			if s.Node != n.Node.Node {
				continue
			}
			if n.Survey, err = s.fingerprint(forced); err != nil {
				return err
			}
		}
	}
	return nil
}

// forced are the partitions whose sets get new members.
func (p *Plan) forced() map[uint64]bool {
	out := map[uint64]bool{}
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Forced {
			out[g.Partition] = true
		}
	}
	return out
}

func (p *planner) sortGroups() {
	for _, f := range p.found {
		if f.group != nil {
			p.plan.Groups = append(p.plan.Groups, *f.group)
		}
	}
	slices.SortFunc(p.plan.Groups, func(a, b Group) int {
		return cmp.Or(-cmp.Compare(slices.Index(losses, a.Loss), slices.Index(losses, b.Loss)),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Partition, b.Partition))
	})
}

// digest names a plan.
func digest(b []byte) string { return hex.EncodeToString(b[:8]) }
