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

// Plan describes the changes of all directories.
type Plan struct {
	// Cluster is the lost cluster, and Next is the ID of the recovered cluster.
	Cluster, Next ID
	Made          time.Time
	// Nodes are the survivors, and Lost are the lost members.
	Nodes []Survivor
	Lost  []Node
	// Groups are the replica sets of all partitions, in descending order of loss.
	Groups []Group
	// Pieces are the spans whose rows are lost.
	Pieces []Piece
	// Records are the records of the meta partition at Version. The meta partition restarts with these records after
	// the entry at Index in Term.
	Version     uint64
	Records     []Record
	Index, Term uint64
	// Region is the region of the meta partition.
	Region string
	// Warnings are for the operator.
	Warnings []string
}

// Node is a member of the cluster.
type Node struct {
	Node     ID
	Internal string
}

// Survivor is a node to whose directory the plan applies.
type Survivor struct {
	Node
	Dir string
	// Survey is the fingerprint of the node state on which the plan is based.
	Survey string
}

// Loss is the loss of a replica set.
type Loss string

// These are the losses in ascending order of severity.
const (
	// Whole means that the survivors have a quorum. A Whole set is unchanged unless the metadata is Behind.
	Whole Loss = "whole"
	// Complete means that the quorum is lost, but a survivor has every acknowledged write.
	Complete Loss = "complete"
	// Behind means that acknowledged writes after the end of the longest log may be lost.
	Behind Loss = "behind"
	// Gone means that no replica remains.
	Gone Loss = "gone"
)

var losses = []Loss{Whole, Complete, Behind, Gone}

// Group is a replica set and its planned changes.
type Group struct {
	Partition uint64
	Table     uint32
	// Name is the table name with its keyspace, if the metadata contains it.
	Name string
	Loss Loss
	// Voters is the previous number of voters, and Left is the number of surviving voters.
	Voters, Left int
	// Longest is the node with the longest log, which ends at Last. Newest is the time of the newest write in this log,
	// in microseconds.
	Longest ID
	Last    uint64
	Newest  int64
	// Forced reports whether the set gets new members, which are Votes and Learns.
	Forced        bool
	Votes, Learns []Member
	// Thaw is an entry that is appended to the longest log to unfreeze the partition, or nil.
	Thaw *Thaw
	// Schema is the newest table revision in the metadata.
	Schema uint64
}

// Thaw is a log entry with one command.
type Thaw struct{ Index, Term, Epoch uint64 }

// Member is a replica and its node.
type Member struct {
	Replica uint64
	Node    ID
}

// Piece is a span of a table whose rows are lost. An empty partition replaces it.
type Piece struct {
	Name      string
	Partition uint64
	Span      string
	// Share is the fraction of the ring that the span covers, from 0 to 1.
	Share float64
}

// planner creates a plan.
type planner struct {
	states []*NodeState
	base   *meta.State
	plan   *Plan
	lost   map[topology.NodeID]bool
	// stored holds the names of tables that are not in the schema of the metadata.
	stored map[uint32]string
	// found holds the partitions on survivors by ID. absorbed holds the partitions whose spans other partitions have
	// taken over.
	found    map[uint64]*found
	absorbed map[uint64]bool
	// force makes all sets get new members, because the members in the metadata may be outdated.
	force         bool
	nextPartition topology.PartitionID
	nextReplica   topology.ReplicaID
}

// found is a partition that has remaining replicas.
type found struct {
	holders []holder // in descending order of log length; empty if newborn is true
	outcome
	// newborn reports whether the partition exists only in its parent's log.
	newborn bool
	group   *Group
}

// Make plans the recovery of a cluster from the states of all survivors. lost contains ID prefixes of the lost members.
// stored holds the names of tables that every cluster has. Make returns an error if information is missing.
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

// checkStates rejects states that do not belong together.
func (p *planner) checkStates() error {
	if len(p.states) == 0 {
		return errors.New("no survey was specified")
	}
	p.plan.Cluster = p.states[0].Cluster
	for i, s := range p.states {
		if s.Cluster != p.plan.Cluster {
			return fmt.Errorf("nodes %s and %s belong to different clusters", p.states[0].Node.Short(), s.Node.Short())
		}
		if i > 0 && s.Node == p.states[i-1].Node {
			return fmt.Errorf("two surveys of node %s were specified: use only the newer survey", s.Node.Short())
		}
		if err := s.decode(); err != nil {
			return err
		}
	}
	return nil
}

// find collects the replicas of each partition and evaluates the longest log of each partition.
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

// readRecords reads the metadata from the longest log of the meta partition.
func (p *planner) readRecords() error {
	f := p.found[keys.MetaPartition]
	if f == nil {
		return errors.New("no remaining node has the cluster metadata. Restore a backup (ilion restore)")
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
		return fmt.Errorf("metadata of node %s: %w", s.Node.Short(), err)
	}
	return nil
}

// checkMembers returns an error unless every member has been inspected or is named as lost.
func (p *planner) checkMembers(lost []string) error {
	surveyed := map[topology.NodeID]*NodeState{}
	for _, s := range p.states {
		surveyed[topology.NodeID(s.Node)] = s
		if n := p.base.Node(topology.NodeID(s.Node)); n == nil || n.State == meta.Left {
			return fmt.Errorf("node %s is not a member according to the newest remaining metadata: omit its survey, "+
				"and start it on an "+
				"empty directory when the other nodes run", s.Node.Short())
		}
	}
	for _, name := range lost {
		n, err := membership.Find(p.base, name)
		if err != nil {
			return fmt.Errorf("--lost: %w", err)
		}
		if s := surveyed[n.ID]; s != nil {
			return fmt.Errorf("node %s is specified with --lost, but its survey exists (%s). Omit one of them",
				n.ID.Short(), s.Dir)
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
		return errors.New("nothing to recover: no node is lost. Start the nodes")
	}
	if len(missing) > 0 {
		return fmt.Errorf("the survey of %s is missing: inspect each node whose disk remains, and specify each node "+
			"whose disk is "+
			"permanently lost with --lost", list(missing))
	}
	return nil
}

// list joins names for messages.
func list(names []string) string {
	if len(names) == 1 {
		return "node " + names[0]
	}
	text := "nodes "
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

// assess determines the loss and the changes of each replica set.
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
		return errors.New("nothing to recover: every replica set has a quorum among these nodes. Start them, and " +
			"decommission the lost nodes " +
			"(ilion node decommission)")
	}
	for id, f := range p.found {
		if !f.newborn {
			p.forceOf(id, f)
		}
	}
	return nil
}

// recordFingerprints records the fingerprint of each directory.
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

// forced returns the partitions whose sets get new members.
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

// digest returns the digest of a plan.
func digest(b []byte) string { return hex.EncodeToString(b[:8]) }
