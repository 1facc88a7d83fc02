// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

const (
	leaderSubject = "leader"
	// keyBytesMax bounds a component of a partition key, as in Cassandra.
	keyBytesMax = 65_535
)

// endpoints returns the replicas of a logical partition. The key components are CQL literals or plain text; for
// containers, JSON or plain text. The logical partition need not exist, because no data is read.
func (n *Node) endpoints(ctx context.Context, table string, key []string) (out catalog.Endpoints, err error) {
	t, err := n.catalog.UserTableNamed(table)
	if err != nil {
		return out, err
	}
	if len(key) != len(t.PartitionKey) {
		var names []string
		for _, c := range t.PartitionKey {
			names = append(names, c.Name)
		}
		return out, fmt.Errorf("the partition key of %s is %s: give %d values, not %d", t, strings.Join(names, ", "),
			len(names), len(key))
	}
	components := make([][]byte, len(key))
	for i, c := range t.PartitionKey {
		if components[i], err = n.component(t, c, key[i]); err != nil {
			return out, err
		}
	}
	whole := token.AppendKey(nil, components...)
	at := t.Token(whole)
	out.Table, out.Token = t.String(), int64(at)
	p := n.metadata.State().Topology.Locate(t.ID, at, whole)
	if p == nil {
		return out, errors.New("the topology is changing: retry later")
	}
	tokens := p.Span.Tokens()
	out.Partition, out.BeginToken, out.EndToken = uint64(p.ID), int64(tokens.First()), int64(tokens.Last())
	if leader := n.leaderOf(ctx, p); leader != (topology.NodeID{}) {
		out.Leader = hex.EncodeToString(leader[:])
	}
	out.Replicas = n.replicasOf(p)
	return out, nil
}

// component returns the wire format of one component of a partition key.
func (n *Node) component(t *schema.Table, c *schema.Column, text string) ([]byte, error) {
	if len(text) > 2*keyBytesMax+2 { // twice the size, for a blob literal
		return nil, fmt.Errorf("%s: the value has %d bytes, but the limit is %d", c.Name, len(text), keyBytesMax)
	}
	var wire []byte
	var err error
	if t.Container != nil {
		wire = containerValue(text)
	} else if wire, err = n.literal(t, c, text); err != nil {
		if wire, err = c.Type.FromText(text); err != nil {
			return nil, fmt.Errorf("%s is of type %s: %w", c.Name, c.Type, err)
		}
	}
	if len(wire) > keyBytesMax {
		return nil, fmt.Errorf("%s: the value has %d bytes, but the limit is %d", c.Name, len(wire), keyBytesMax)
	}
	return wire, nil
}

// literal parses a CQL literal.
func (n *Node) literal(t *schema.Table, c *schema.Column, text string) ([]byte, error) {
	term, markers, err := parser.ParseTerm(text)
	if err != nil || len(markers) > 0 {
		return nil, errors.Join(err, errors.New("not a literal"))
	}
	env := expr.NewEnv(n.compat, n.catalog.Snapshot().Keyspace(t.Keyspace), t, 0)
	bound, err := expr.Bind(term, expr.Receiver{Name: c.Name, Type: c.Type}, env)
	if err != nil {
		return nil, err
	}
	wire, state, err := bound.Eval(&expr.Bindings{Now: n.clock()()})
	if err == nil && state != expr.Value {
		err = errors.New("a key component cannot be null")
	}
	return wire, err
}

// containerValue returns a component of a container's partition key: JSON if the text is valid JSON, otherwise a
// string.
func containerValue(text string) []byte {
	if v, err := epk.ParseValue([]byte(text)); err == nil {
		return v.Append(nil)
	}
	return epk.Text(text).Append(nil)
}

// leaderOf returns the leader of a partition according to the nodes with a replica.
func (n *Node) leaderOf(ctx context.Context, p *topology.Partition) topology.NodeID {
	if n.cluster == nil {
		return n.store.Identity().Node
	}
	if r := n.host.Replica(p.ID); r != nil {
		if leader, ok := r.Leader(); ok {
			return leader
		}
	}
	question := strconv.AppendUint(nil, uint64(p.ID), 10)
	answers, _, err := clusterquery.All(ctx, n.queries, leaderSubject, question, queryTimeout, n.localLeader)
	if err != nil {
		return topology.NodeID{}
	}
	for _, a := range answers {
		var id topology.NodeID
		if b, err := hex.DecodeString(a); err == nil && copy(id[:], b) == len(id) {
			return id
		}
	}
	return topology.NodeID{}
}

// localLeader returns the leader of a partition according to the local replica. The question is the partition's ID, and
// the result a hex node ID.
func (n *Node) localLeader(_ context.Context, question []byte) (string, error) {
	id, err := strconv.ParseUint(string(question), 10, 64)
	if err != nil {
		return "", errors.New("malformed request")
	}
	if r := n.host.Replica(topology.PartitionID(id)); r != nil {
		if leader, ok := r.Leader(); ok {
			return hex.EncodeToString(leader[:]), nil
		}
	}
	return "", nil
}

// replicasOf returns the replicas of a partition with the addresses of their nodes.
func (n *Node) replicasOf(p *topology.Partition) []catalog.EndpointReplica {
	if n.cluster == nil {
		r := n.nodeRecord()
		return []catalog.EndpointReplica{{Node: hex.EncodeToString(r.ID[:]), Address: r.CQL, Region: r.Region,
			Zone: r.Zone, State: topology.Voter.String(), Up: true}}
	}
	out := []catalog.EndpointReplica{}
	state := n.metadata.State()
	for i := range p.Sets {
		for _, r := range p.Sets[i].Replicas {
			e := catalog.EndpointReplica{Node: hex.EncodeToString(r.Node[:]), State: r.State.String(),
				Up: r.Node == n.cluster.self || n.cluster.peers.Alive(r.Node)}
			if node := state.Node(r.Node); node != nil {
				e.Address, e.Internal, e.Region, e.Zone = node.CQL, node.Internal, node.Region, node.Zone
			}
			out = append(out, e)
		}
	}
	return out
}
