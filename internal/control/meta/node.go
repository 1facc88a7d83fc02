// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// NodeState is what a node is meant to be; whether it answers is not a matter of record.
type NodeState uint8

// The states of a node: one that is Draining leads nothing; one that is Leaving gives its replicas away; one that has Left has none and
// never comes back under its id.
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
	// FormatMin and FormatMax are the cluster versions that it can work with.
	FormatMin, FormatMax uint32
	// Joined is when it was added, to the millisecond.
	Joined time.Time
	// Birth is that of the node's data directory: another directory is another node, whatever its certificate says. 0 is not known.
	Birth uint64

	// rest is what a later version has added to the record; it is kept.
	rest []byte
}

// Bounds of a node's record.
const (
	nodeFormat    = 1
	nodeTextMax   = 1024
	nodeTokensMax = 1024
)

// ErrMalformed says that bytes are not a record of their kind.
var ErrMalformed = errors.New("malformed record")

// Append appends the encoded node without its id: the format, then its fields in order. Later versions add fields behind them.
func (n *Node) Append(dst []byte) []byte {
	dst = append(dst, nodeFormat)
	for _, text := range []string{n.Internal, n.CQL, n.HTTP, n.Region, n.Zone} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(n.Tokens)))
	for _, t := range n.Tokens {
		dst = binary.BigEndian.AppendUint64(dst, uint64(t))
	}
	for _, v := range []uint64{uint64(n.State), uint64(n.FormatMin), uint64(n.FormatMax)} {
		dst = binary.AppendUvarint(dst, v)
	}
	joined := int64(0)
	if !n.Joined.IsZero() {
		joined = n.Joined.UnixMilli()
	}
	dst = binary.AppendVarint(dst, joined)
	if n.Birth == 0 && len(n.rest) == 0 {
		return dst
	}
	return append(binary.AppendUvarint(dst, n.Birth), n.rest...)
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

// DecodeNode reads what Append wrote, in this version or a later one with the same format.
func DecodeNode(id topology.NodeID, src []byte) (*Node, error) {
	if len(src) == 0 || src[0] == 0 {
		return nil, ErrMalformed
	}
	if src[0] > nodeFormat {
		return nil, fmt.Errorf("node record of format %d, this version reads up to %d", src[0], nodeFormat)
	}
	r := fields{b: src[1:]}
	n := &Node{ID: id}
	for _, text := range []*string{&n.Internal, &n.CQL, &n.HTTP, &n.Region, &n.Zone} {
		*text = string(r.take(r.uint(nodeTextMax)))
	}
	if count := r.uint(nodeTokensMax); count > 0 && count <= uint64(len(r.b)/8) {
		for range count {
			n.Tokens = append(n.Tokens, token.Token(binary.BigEndian.Uint64(r.take(8))))
		}
	} else if count > 0 {
		r.bad = true
	}
	n.State = NodeState(r.uint(uint64(Left)))
	n.FormatMin, n.FormatMax = uint32(r.uint(math.MaxUint32)), uint32(r.uint(math.MaxUint32))
	if joined := r.int(); joined != 0 {
		n.Joined = time.UnixMilli(joined).UTC()
	}
	if len(r.b) > 0 { // the first records had no birth
		n.Birth = r.uint(math.MaxUint64)
	}
	if r.bad {
		return nil, ErrMalformed
	}
	if len(r.b) > 0 {
		n.rest = append([]byte(nil), r.b...)
	}
	return n, nil
}

// fields takes values off b until one does not fit; then bad stays set, and all that follow are zero.
type fields struct {
	b   []byte
	bad bool
}

func (r *fields) uint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *fields) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *fields) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}
