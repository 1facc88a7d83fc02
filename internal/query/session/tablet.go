// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Tablet says where a range of tokens of a table is, in the form of the extension tablets-routing-v1 of the protocol.
type Tablet struct {
	// First is before the first token of the range, Last is its last one.
	First, Last token.Token
	// Replicas are the host ids of the nodes that have the range, that of the leader first.
	Replicas []schema.UUID
}

// Routing tells where data is. It is asked about a token once per EXECUTE of a client that asked for
// tablets-routing-v1.
type Routing interface {
	// Tablet finds the range that holds a token of a table. ok is false if there is nothing to tell: this node has a
	// replica, or the table is not known.
	Tablet(table uint32, t token.Token) (tablet Tablet, ok bool)
}

// tabletsPayload is the key of the custom payload.
const tabletsPayload = "tablets-routing-v1"

// reroute adds to a result where the partition of a prepared statement is, if this node is none of its replicas and the
// client wants to know: as in ScyllaDB, a client that asks any of the replicas is not corrected. It is called before
// the request is executed, while its values are there.
func (s *Session) addTabletPayload(c *Call, st *statement) {
	routing := s.engine.opts.Routing
	if routing == nil || !s.client.Tablets {
		return
	}
	if len(st.tables) > 0 && st.tables[0].Container != nil {
		return // its keys stand on the ring by another hash than the client's
	}
	table, t, ok := st.token(&c.Request)
	if !ok {
		return
	}
	if tablet, ok := routing.Tablet(table, t); ok {
		c.Result.Payload = append(c.Result.Payload[:0], Payload{Key: []byte(tabletsPayload), Value: tablet.append(nil)})
	}
}

// token is that of the partition key which a request binds; ok is false if the statement is not about one stored table,
// or the key is not bound whole.
func (st *statement) token(r *Request) (table uint32, t token.Token, ok bool) {
	if st.pkIndexes == nil || st.computed || r.Names != nil {
		return 0, 0, false
	}
	var buf [128]byte
	key := buf[:0]
	for _, i := range st.pkIndexes {
		if int(i) >= len(r.Values) || r.Values[i] == nil {
			return 0, 0, false
		}
		if len(st.pkIndexes) == 1 {
			key = append(key, r.Values[i]...)
		} else {
			key = token.AppendComponent(key, r.Values[i])
		}
	}
	return st.tables[0].ID, st.tables[0].Token(key), true
}

// append appends the wire form: tuple<bigint, bigint, list<tuple<uuid, int>>>. The int is a number of ScyllaDB's, which
// is 0 here.
func (t *Tablet) append(dst []byte) []byte {
	const replicaSize = 4 + 16 + 4 + 4
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, 8), uint64(t.First))
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, 8), uint64(t.Last))
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(t.Replicas)*(4+replicaSize)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(t.Replicas)))
	for _, host := range t.Replicas {
		dst = binary.BigEndian.AppendUint32(dst, replicaSize)
		dst = append(binary.BigEndian.AppendUint32(dst, 16), host[:]...)
		dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, 4), 0)
	}
	return dst
}

// MapRouting is a Routing over the map of physical partitions.
type TopologyRouting struct {
	// Map is the present map.
	Topology func() *topology.Snapshot
	// Node is this node.
	Node topology.NodeID
	// Leader is the node that leads a partition as far as is known here, ok is false if it is not; nil: the hints of
	// the map are used.
	Leader func(p topology.PartitionID) (node topology.NodeID, ok bool)
}

// Tablet implements Routing.
func (m *TopologyRouting) Tablet(table uint32, t token.Token) (tablet Tablet, ok bool) {
	snapshot := m.Topology()
	i := snapshot.Find(table, topology.Position{Ring: t.Position()})
	if i < 0 {
		return tablet, false
	}
	p := snapshot.Partitions(table)[i]
	tokens := p.Span.Tokens()
	tablet.First, tablet.Last = token.Min, tokens.Last()
	if tokens.Begin > 0 {
		tablet.First = token.AtPosition(tokens.Begin - 1)
	}
	if len(p.Span.Limit.Key) > 0 {
		tablet.Last-- // of that token it has only a part
	}
	if tablet.First >= tablet.Last {
		return tablet, false // a part of one token: no range can say that
	}
	leader, known := topology.NodeID{}, false
	if m.Leader != nil {
		leader, known = m.Leader(p.ID)
	}
	for _, set := range p.Sets {
		for _, r := range set.Replicas {
			if r.Node == m.Node && r.State != topology.Joining {
				return tablet, false
			}
			if r.State != topology.Voter {
				continue // it comes, or goes
			}
			tablet.Replicas = append(tablet.Replicas, schema.UUID(r.Node))
			if first := r.Node == leader; known && first || !known && r.ID == set.Leader {
				last := len(tablet.Replicas) - 1
				tablet.Replicas[0], tablet.Replicas[last] = tablet.Replicas[last], tablet.Replicas[0]
			}
		}
	}
	return tablet, len(tablet.Replicas) > 0
}
