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

// NodeState is what a node is meant to be; whether it answers is not a matter of record.
type NodeState uint8

// The states of a node: one that is Draining leads nothing; one that is Leaving gives its replicas away; one that has
// Left has none and never comes back under its id.
const (
	Up NodeState = iota
	Draining
	Leaving
	Left
)

var nodeStates = [...]string{"up", "draining", "leaving", "left"}

// String is the state's name, lower case.
func (s NodeState) String() string {
	if int(s) < len(nodeStates) {
		return nodeStates[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Node is a member of the cluster.
type Node struct {
	ID topology.NodeID
	// Internal is where other nodes reach it, CQL and HTTP where clients do: host:port.
	Internal, CQL, HTTP string
	// Region and Zone are what drivers call data centre and rack.
	Region, Zone string
	// Tokens are its places on the ring that drivers see, ascending. They never change.
	Tokens []token.Token
	State  NodeState
	// Levels are the feature levels that its build understands.
	Levels feature.Range
	// Joined is when it was added, to the millisecond.
	Joined time.Time
	// Birth is that of the node's data directory: another directory is another node, whatever its certificate says. 0
	// is not known.
	Birth uint64
	// Start is the newest start of the data directory that the cluster has let in, Mark the mark that was drawn for it:
	// see package lineage.
	Start, Mark uint64

	// rest has the fields that a later build has added, as they came.
	rest []byte
}

// Bounds of a node's record.
const (
	nodeFormat    = 2
	nodeTextMax   = 1024
	nodeTokensMax = 1024
)

// ErrMalformed says that bytes are not a record of their kind.
var ErrMalformed = errors.New("malformed record")

// Append appends the encoded node without its id: the format, then its parts in order, and the fields of later builds.
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
	w.Uint(n.Birth)
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

// nodeStart is the field of Start and Mark.
const nodeStart = 1

// fields reads the fields of a record and keeps those that it does not know, but for one that must be known: it returns
// that.
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

// Check returns an error if the node cannot be stored: what it says of itself is too long.
func (n *Node) Check() error {
	for _, text := range []string{n.Internal, n.CQL, n.HTTP, n.Region, n.Zone} {
		if len(text) > nodeTextMax {
			return fmt.Errorf("an address, a region or a zone of %d bytes; at most %d", len(text), nodeTextMax)
		}
	}
	if n.Region == "" || n.Zone == "" {
		return errors.New("a node without a region or a zone")
	}
	return nil
}

// DecodeNode reads what Append wrote, in this build or in a later one of the same format. Errors are ErrMalformed or a
// *feature.Newer.
func DecodeNode(id topology.NodeID, src []byte) (*Node, error) {
	if len(src) == 0 || src[0] < nodeFormat {
		return nil, ErrMalformed
	}
	if src[0] > nodeFormat {
		return nil, &feature.Newer{What: "the record of a node", Unit: "format", Has: uint64(src[0]),
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
	n.Birth = r.Uint()
	refused := n.fields(&r)
	switch {
	case r.End() != nil:
		return nil, ErrMalformed
	case refused != 0:
		return nil, &feature.Newer{What: "the record of a node", Unit: "field", Has: refused}
	case state > uint64(Left):
		return nil, &feature.Newer{What: "the record of a node", Unit: "state", Has: state, Newest: uint64(Left)}
	}
	return n, nil
}
