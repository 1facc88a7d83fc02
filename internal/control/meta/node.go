// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// NodeState is the intended state of a node. It does not indicate whether the node is alive.
type NodeState uint8

// These are the states of a node. A Draining node leads no partition. A Leaving node moves its replicas to other nodes.
// A Left node has no replicas and cannot return with the same ID.
const (
	Up NodeState = iota
	Draining
	Leaving
	Left
)

var nodeStates = [...]string{"up", "draining", "leaving", "left"}

// String returns the name of the state in lower case.
func (s NodeState) String() string {
	if int(s) < len(nodeStates) {
		return nodeStates[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Node is a member of the cluster.
type Node struct {
	ID topology.NodeID
	// Internal is the address for other nodes. CQL and HTTP are the addresses for clients. The form is host:port.
	Internal, CQL, HTTP string
	// Region and Zone are the data center and the rack that drivers see.
	Region, Zone string
	// Tokens are the node's ring tokens that drivers see, in ascending order. They never change.
	Tokens []token.Token
	State  NodeState
	// Levels are the feature levels that the node supports.
	Levels feature.Range
	// Joined is the time at which the node was added, in milliseconds.
	Joined time.Time
	// CreationID identifies the node's data directory. It is 0 if it is unknown. A node with another directory is
	// another node, even if it has the same certificate.
	CreationID uint64
	// Start is the number of the newest start of the data directory that the cluster has admitted. Mark is the random
	// mark of this start. See package incarnation.
	Start, Mark uint64

	// rest holds the encoded fields of later versions.
	rest []byte
}

// These are the format and the limits of a node's record.
const (
	nodeFormat    = 2
	nodeTextMax   = 1024
	nodeTokensMax = 1024
)

// ErrMalformed means that a record cannot be decoded.
var ErrMalformed = errors.New("malformed record")

// Append appends the encoded node without its ID. It includes the fields of later versions.
func (n *Node) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, nodeFormat))
	for _, text := range []string{n.Internal, n.CQL, n.HTTP, n.Region, n.Zone} {
		w.Text(text)
	}
	w.Uint(uint64(len(n.Tokens)))
	for _, t := range n.Tokens {
		w.Fixed(uint64(t))
	}
	w.Uint(uint64(n.State))
	w.Uint(uint64(n.Levels.Oldest))
	w.Uint(uint64(n.Levels.Newest))
	joined := int64(0)
	if !n.Joined.IsZero() {
		joined = n.Joined.UnixMilli()
	}
	w.Int(joined)
	w.Uint(n.CreationID)
	if n.Start != 0 {
		start := codec.Writer(nil)
		start.Uint(n.Start)
		start.Fixed(n.Mark)
		w.Field(nodeStart, false, start)
	}
	w.Raw(n.rest)
	w.EndFields()
	return w
}

// nodeStart is the field that holds Start and Mark.
const nodeStart = 1

// fields reads the fields of a record and stores unknown fields. It returns the number of an unknown required field, or
// 0.
func (n *Node) fields(r *codec.Reader) (refused uint64) {
	var rest codec.Writer
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		switch {
		case f.Number == nodeStart:
			v := codec.NewReader(f.Value, ErrMalformed)
			n.Start, n.Mark = v.Uint(), v.Fixed()
		case f.Must && refused == 0:
			refused = f.Number
		default:
			rest.Field(f.Number, f.Must, f.Value)
		}
	}
	n.rest = rest
	return refused
}

// Check returns an error if the node cannot be stored.
func (n *Node) Check() error {
	for _, text := range []string{n.Internal, n.CQL, n.HTTP, n.Region, n.Zone} {
		if len(text) > nodeTextMax {
			return fmt.Errorf("address, region, or zone has %d bytes; the limit is %d", len(text), nodeTextMax)
		}
	}
	if n.Region == "" || n.Zone == "" {
		return errors.New("region or zone is empty")
	}
	return nil
}

// DecodeNode decodes a node that this version or a later version of Append has written. The error is ErrMalformed or
// *feature.Newer.
func DecodeNode(id topology.NodeID, src []byte) (*Node, error) {
	if len(src) == 0 || src[0] < nodeFormat {
		return nil, ErrMalformed
	}
	if src[0] > nodeFormat {
		return nil, &feature.Newer{What: "a node record", Unit: "format", Has: uint64(src[0]),
			Newest: nodeFormat}
	}
	r := codec.NewReader(src[1:], ErrMalformed)
	n := &Node{ID: id}
	for _, text := range []*string{&n.Internal, &n.CQL, &n.HTTP, &n.Region, &n.Zone} {
		*text = string(r.Take(r.UpTo(nodeTextMax)))
	}
	count := r.Count(8)
	if count > nodeTokensMax {
		return nil, ErrMalformed
	}
	for range count {
		n.Tokens = append(n.Tokens, token.Token(r.Fixed()))
	}
	state := r.Uint()
	n.State = NodeState(min(state, uint64(Left)))
	n.Levels = feature.Range{Oldest: feature.Level(r.Uint32()), Newest: feature.Level(r.Uint32())}
	if joined := r.Int(); joined != 0 {
		n.Joined = time.UnixMilli(joined).UTC()
	}
	n.CreationID = r.Uint()
	refused := n.fields(&r)
	switch {
	case r.End() != nil:
		return nil, ErrMalformed
	case refused != 0:
		return nil, &feature.Newer{What: "a node record", Unit: "field", Has: refused}
	case state > uint64(Left):
		return nil, &feature.Newer{What: "a node record", Unit: "state", Has: state, Newest: uint64(Left)}
	}
	return n, nil
}
