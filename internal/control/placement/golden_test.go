// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// stage is a cluster that a script changes.
type stage struct {
	state *meta.State
	view  View
}

func nodeID(t *testing.T, name string) topology.NodeID {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	if err != nil {
		t.Fatal(err)
	}
	return topology.NodeID{byte(n)}
}

func partitionID(t *testing.T, name string) topology.PartitionID {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "p"))
	if err != nil {
		t.Fatal(err)
	}
	return topology.PartitionID(n)
}

// TestSchedule runs the scripts of testdata/schedule. They show the scheduled actions and the resulting topology when
// nodes join, fail, leave, and return.
//
//	node n1 [zone=a]   a node joins
//	state n1 leaving   sets the requested state
//	down n1 / up n1    a node fails or returns
//	free n1 10         sets the free disk space in percent
//	wait 5m            advances the time
//	table 1024 [parts=2] [whole]
//	move p1 n1 n5      requests a move, see Move
//	gather p1 p2       requests a colocation, see Colocate
//	together p1 p2     reports whether partitions are colocated
//	schedule           schedules actions and applies them
//	lead               every leader does all it can and publishes the result
//	why p1             prints the reason of a change
//	show               prints the topology
//	short              prints the under-replicated partitions
func TestSchedule(t *testing.T) {
	datadriven.Walk(t, "testdata/schedule", func(t *testing.T, path string) {
		s := &stage{state: meta.Empty(), view: View{Now: time.Unix(0, 0), Down: map[topology.NodeID]time.Time{},
			Free: map[topology.NodeID]int{}}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(t, d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return out
		})
	})
}

func (s *stage) run(t *testing.T, d *datadriven.TestData) (string, error) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	switch d.Cmd {
	case "node":
		n := &meta.Node{ID: nodeID(t, arg(0)), Region: here}
		d.MaybeScanArgs(t, "zone", &n.Zone)
		n.Tokens = append(n.Tokens, NextToken(s.state.Nodes, here))
		s.state = s.state.WithNode(n)
		if s.state.Topology.Meta() == nil {
			m, err := s.state.Topology.AddMeta([]topology.Place{{Region: here, Nodes: []topology.NodeID{n.ID}}})
			if err != nil {
				return "", err
			}
			s.state = s.state.WithTopology(m)
		}
		return fmt.Sprintf("token %s\n", n.Tokens[0]), nil
	case "down":
		s.view.Down[nodeID(t, arg(0))] = s.view.Now
	case "up":
		delete(s.view.Down, nodeID(t, arg(0)))
	case "free":
		free, err := strconv.Atoi(arg(1))
		s.view.Free[nodeID(t, arg(0))] = free
		return "", err
	case "wait":
		d, err := time.ParseDuration(arg(0))
		s.view.Now = s.view.Now.Add(d)
		return "", err
	case "state":
		n := *s.state.Node(nodeID(t, arg(0)))
		for n.State = meta.Up; n.State.String() != arg(1); n.State++ {
		}
		s.state = s.state.WithNode(&n)
	case "table":
		id, err := strconv.Atoi(arg(0))
		if err != nil {
			return "", err
		}
		table := Table{ID: uint32(id), Parts: 1, Whole: d.HasArg("whole")}
		d.MaybeScanArgs(t, "parts", &table.Parts)
		m, err := s.state.Topology.CutTable(table.ID, Place(s.state, &s.view, []string{here}, table))
		if err != nil {
			return "", err
		}
		s.state = s.state.WithTopology(m)
		return s.show(), nil
	case "move":
		o := Move{Table: 1024, Partition: partitionID(t, arg(0)), From: nodeID(t, arg(1)), To: nodeID(t, arg(2))}
		next, err := o.Apply(s.state, &s.view)
		if err != nil {
			return "", err
		}
		s.state = next
	case "gather":
		left, right := partitionID(t, arg(0)), partitionID(t, arg(1))
		m, err := Colocate(s.state.Topology, left, right, topology.ByOperator, s.view.Now.Add(time.Minute))
		if err != nil {
			return "", err
		}
		s.state = s.state.WithTopology(m)
	case "together":
		left, right := partitionID(t, arg(0)), partitionID(t, arg(1))
		return fmt.Sprintln(Colocated(s.state.Topology.Partition(left), s.state.Topology.Partition(right))), nil
	case "schedule":
		return s.schedule()
	case "why":
		if p := s.state.Topology.Partition(partitionID(t, arg(0))); p.Reason != nil {
			return fmt.Sprintln(p.Reason.Cause), nil
		}
	case "lead":
		return "", s.lead()
	case "show":
		return s.show(), nil
	case "short":
		var b strings.Builder
		for _, x := range UnderReplicated(s.state, s.view.Down) {
			fmt.Fprintf(&b, "%s: %d of %d voters answer, %d may fail, changing: %t\n", name(x.Partition), x.Alive,
				x.Voters, x.Spare, x.Changing)
		}
		return b.String(), nil
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	return "", nil
}

func (s *stage) schedule() (string, error) {
	var b strings.Builder
	actions := Schedule(s.state, s.view)
	for _, a := range actions {
		fmt.Fprintf(&b, "%s: %s", name(a.Partition), a.Reason)
		for _, step := range a.Steps {
			fmt.Fprintf(&b, ", %s", kinds[step.Kind])
			if step.Kind != Unpin {
				fmt.Fprintf(&b, " n%d", step.Node[0])
			}
		}
		b.WriteByte('\n')
	}
	m, err := Apply(s.state.Topology, actions, s.view.Now)
	if err != nil {
		return "", err
	}
	s.state = s.state.WithTopology(m)
	return b.String(), nil
}

// lead changes the configuration of every set as Plan requires. Learners on available nodes catch up immediately.
func (s *stage) lead() error {
	for p := range s.state.Topology.All() {
		set, c := &p.Sets[0], Config{}
		for _, m := range set.Replicas {
			if m.State == topology.Voter || m.State == topology.Leaving {
				c.Voters = append(c.Voters, m.ID)
			} else {
				c.Learners = append(c.Learners, m.ID)
			}
		}
		change := Plan(set, c, func(id topology.ReplicaID) bool { return !s.view.down(set.Member(id).Node) })
		var voters []topology.ReplicaID
		for _, m := range change.Promote {
			voters = append(voters, m.ID)
		}
	each:
		for _, id := range c.Voters {
			for _, gone := range change.Remove {
				if gone == id {
					continue each
				}
			}
			voters = append(voters, id)
		}
		m, err := s.state.Topology.RecordVoters(p.ID, here, voters)
		if err != nil {
			return err
		}
		s.state = s.state.WithTopology(m)
	}
	return nil
}

func (s *stage) show() string {
	var b strings.Builder
	ring := RingOf(s.state, &s.view, here)
	for p := range s.state.Topology.All() {
		b.WriteString(name(p.ID))
		if p.ID != topology.MetaPartition {
			fmt.Fprintf(&b, " %s", p.Span)
		}
		b.WriteByte(':')
		for _, m := range p.Sets[0].Replicas {
			fmt.Fprintf(&b, " n%d", m.Node[0])
			if m.State != topology.Voter {
				fmt.Fprintf(&b, " (%s)", m.State)
			}
		}
		leader := PreferredLeader(&p.Sets[0], ring.LeaderOrder(p, s.view.Now), func(n topology.NodeID) bool {
			return s.view.MayLead(s.state.Node(n))
		})
		if m := p.Sets[0].Member(leader); m != nil {
			fmt.Fprintf(&b, ", led by n%d", m.Node[0])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func name(id topology.PartitionID) string {
	if id == topology.MetaPartition {
		return "meta"
	}
	return fmt.Sprint("p", id)
}
