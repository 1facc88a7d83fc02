// SPDX-License-Identifier: Apache-2.0

package diagnostics

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// keyBytesMax is the maximum size, in bytes, of a component of a partition key, as in Cassandra.
const keyBytesMax = 65_535

// leaderCall requests the node ID of a partition's leader in hexadecimal.
var leaderCall = rpc.Declare[topology.PartitionID, string](rpc.Spec{Name: "leader", Since: 7, Timeout: queryTimeout,
	RequestMax: rpc.SmallBytes, ResponseMax: rpc.SmallBytes, Idempotent: true})

// Locator finds the replicas of logical partitions. Set its fields before use.
type Locator struct {
	Catalog  *catalog.Catalog
	Release  *compat.Release
	Clock    sched.Clock
	Metadata *meta.Keeper
	Host     *partition.Host
	// Node is the record of this node.
	Node *meta.Node
	// Queries queries the other nodes. It is nil on a standalone node.
	Queries *clusterquery.Client
}

func (l *Locator) register(s *rpc.Server) { clusterquery.Handle(s, leaderCall, l.localLeader) }

// Endpoints returns the replicas of a logical partition. The key components are CQL literals or plain text. For
// containers, they are JSON or plain text. The logical partition need not exist, because no data is read.
func (l *Locator) Endpoints(ctx context.Context, table string, key []string) (out catalog.Endpoints, err error) {
	t, err := l.Catalog.UserTableNamed(table)
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
		if components[i], err = l.component(t, c, key[i]); err != nil {
			return out, err
		}
	}
	whole := token.AppendKey(nil, components...)
	at := t.Token(whole)
	out.Table, out.Token = t.String(), int64(at)
	p := l.Metadata.State().Topology.Locate(t.ID, at, whole)
	if p == nil {
		return out, errors.New("the topology is changing: retry later")
	}
	tokens := p.Span.Tokens()
	out.Partition, out.BeginToken, out.EndToken = uint64(p.ID), int64(tokens.First()), int64(tokens.Last())
	if leader := l.leaderOf(ctx, p); leader != (topology.NodeID{}) {
		out.Leader = hex.EncodeToString(leader[:])
	}
	out.Replicas = l.replicasOf(p)
	return out, nil
}

// component returns the wire format of one component of a partition key.
func (l *Locator) component(t *schema.Table, c *schema.Column, text string) ([]byte, error) {
	if len(text) > 2*keyBytesMax+2 { // allow twice the size, because the value may be a blob literal
		return nil, fmt.Errorf("%s: the value has %d bytes, but the limit is %d", c.Name, len(text), keyBytesMax)
	}
	var wire []byte
	var err error
	if t.Container != nil {
		wire = containerValue(text)
	} else if wire, err = l.literal(t, c, text); err != nil {
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
func (l *Locator) literal(t *schema.Table, c *schema.Column, text string) ([]byte, error) {
	term, markers, err := parser.ParseTerm(text)
	if err != nil || len(markers) > 0 {
		return nil, errors.Join(err, errors.New("not a literal"))
	}
	env := expr.NewEnv(l.Release, l.Catalog.Snapshot().Keyspace(t.Keyspace), t, 0)
	bound, err := expr.Bind(term, expr.Receiver{Name: c.Name, Type: c.Type}, env)
	if err != nil {
		return nil, err
	}
	wire, state, err := bound.Eval(&expr.Bindings{Now: l.Clock.Wall()})
	if err == nil && state != expr.Value {
		err = errors.New("a key component cannot be null")
	}
	return wire, err
}

// containerValue returns a component of a container's partition key. The component is JSON if the text is valid JSON,
// and otherwise a string.
func containerValue(text string) []byte {
	if v, err := epk.ParseValue([]byte(text)); err == nil {
		return v.Append(nil)
	}
	return epk.Text(text).Append(nil)
}

// leaderOf returns the leader of a partition according to the nodes that have a replica.
func (l *Locator) leaderOf(ctx context.Context, p *topology.Partition) topology.NodeID {
	if l.Queries == nil {
		return l.Node.ID
	}
	if r := l.Host.Replica(p.ID); r != nil {
		if leader, ok := r.Leader(); ok {
			return leader
		}
	}
	answers, _, err := clusterquery.All(ctx, l.Queries, leaderCall, p.ID, l.localLeader)
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

// localLeader returns the hexadecimal node ID of a partition's leader according to the local replica.
func (l *Locator) localLeader(_ context.Context, id topology.PartitionID) (string, error) {
	if r := l.Host.Replica(id); r != nil {
		if leader, ok := r.Leader(); ok {
			return hex.EncodeToString(leader[:]), nil
		}
	}
	return "", nil
}

// replicasOf returns the replicas of a partition with the addresses of their nodes.
func (l *Locator) replicasOf(p *topology.Partition) []catalog.EndpointReplica {
	if l.Queries == nil {
		r := l.Node
		return []catalog.EndpointReplica{{Node: hex.EncodeToString(r.ID[:]), Address: r.CQL, Region: r.Region,
			Zone: r.Zone, State: topology.Voter.String(), Up: true}}
	}
	out := []catalog.EndpointReplica{}
	state := l.Metadata.State()
	for i := range p.Sets {
		for _, r := range p.Sets[i].Replicas {
			e := catalog.EndpointReplica{Node: hex.EncodeToString(r.Node[:]), State: r.State.String(),
				Up: l.Queries.Alive(r.Node)}
			if node := state.Node(r.Node); node != nil {
				e.Address, e.Internal, e.Region, e.Zone = node.CQL, node.Internal, node.Region, node.Zone
			}
			out = append(out, e)
		}
	}
	return out
}
