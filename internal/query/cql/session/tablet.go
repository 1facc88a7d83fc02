// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Tablet is the location of a token range of a table, as defined by the protocol extension tablets-routing-v1.
type Tablet struct {
	// First is the token before the first token of the range. Last is the last token of the range.
	First, Last token.Token
	// Replicas holds the host IDs of the nodes that store the range. The leader comes first.
	Replicas []schema.UUID
}

// Routing locates data.
type Routing interface {
	// Tablet returns the range of a table that contains a token. If this node has a replica or does not know the table,
	// ok is false and the client receives no location. Tablet is called for each EXECUTE from a client that supports
	// tablets-routing-v1.
	Tablet(table uint32, t token.Token) (tablet Tablet, ok bool)
	LocalReads
}

// LocalReads decides which reads a connection's goroutine executes.
type LocalReads interface {
	// ServesLocally reports whether this node can serve a read of a partition immediately, without contacting another
	// node. ServesLocally is called for each single-partition read and must be fast.
	ServesLocally(table uint32, t token.Token, level dberr.Consistency, who fairshare.Principal) bool
}

// tabletsPayload is the key of the custom payload.
const tabletsPayload = "tablets-routing-v1"

// addTabletPayload adds the location of a prepared statement's partition to its result if this node is not a replica
// and the client supports tablets-routing-v1. Like ScyllaDB, Ilion does not redirect clients that contact a replica.
// addTabletPayload must be called before the request is executed, while the bound values are valid.
func (s *Session) addTabletPayload(c *Call, st *statement) {
	routing := s.engine.opts.Routing
	if routing == nil || !s.client.Tablets {
		return
	}
	if len(st.tables) > 0 && st.tables[0].Container != nil {
		return // containers and clients use different partition hashes
	}
	table, t, ok := st.token(&c.Request)
	if !ok {
		return
	}
	if tablet, ok := routing.Tablet(table, t); ok {
		c.Result.Payload = append(c.Result.Payload[:0], Payload{Key: []byte(tabletsPayload), Value: tablet.append(nil)})
	}
}

// token returns the token of the bound partition key. ok is false unless the statement accesses one stored table and
// the request binds all components of the partition key.
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

// append appends the wire format of tuple<bigint, bigint, list<tuple<uuid, int>>>. The int is ScyllaDB's shard number,
// which is always 0 in Ilion.
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

// TopologyRouting implements Routing with the topology of physical partitions.
type TopologyRouting struct {
	Coordinator interface {
		LocalReads
		// Topology returns the current topology.
		Topology() *topology.Snapshot
	}
	// Node is the ID of this node.
	Node topology.NodeID
	// Leaders returns the leader of a partition. ok is false if the leader is unknown.
	Leaders interface {
		Leader(p topology.PartitionID) (node topology.NodeID, ok bool)
	}
}

// ServesLocally implements LocalReads.
func (m *TopologyRouting) ServesLocally(table uint32, t token.Token, level dberr.Consistency,
	who fairshare.Principal) bool {
	return m.Coordinator.ServesLocally(table, t, level, who)
}

// Tablet implements Routing.
func (m *TopologyRouting) Tablet(table uint32, t token.Token) (tablet Tablet, ok bool) {
	snapshot := m.Coordinator.Topology()
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
		tablet.Last-- // the partition contains only part of the last token
	}
	if tablet.First >= tablet.Last {
		return tablet, false // part of a single token is not a token range
	}
	leader, known := m.Leaders.Leader(p.ID)
	for _, set := range p.Sets {
		for _, r := range set.Replicas {
			if r.Node == m.Node && r.State != topology.Joining {
				return tablet, false
			}
			if r.State != topology.Voter {
				continue // the replica is being added or removed
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
