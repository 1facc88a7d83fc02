// SPDX-License-Identifier: Apache-2.0

package incarnation

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// PeerHistory records the starts of other nodes that this node has seen, and stores them in the row store. It is safe
// for concurrent use.
type PeerHistory struct {
	rows Rows
	mu   sync.Mutex
	seen map[[16]byte]Start
}

// NewPeerHistory returns a PeerHistory that includes the starts stored in rows.
func NewPeerHistory(rows Rows) *PeerHistory {
	return &PeerHistory{rows: rows, seen: map[[16]byte]Start{}}
}

// peerKey returns the key, under keys.IdentityID, of the last recorded start of a node.
func peerKey(node [16]byte) []byte { return append([]byte("seen "), node[:]...) }

// Accepts reports whether a node's history includes both the last start that this node has recorded and the start
// recorded.
func (w *PeerHistory) Accepts(node [16]byte, l *History, recorded Start) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, err := w.load(node)
	if err != nil {
		return false, err
	}
	if recorded.Number > known.Number {
		known = recorded
	}
	return l.Includes(known), nil
}

// Record durably stores the newest start of an accepted node. Accepts then rejects earlier states of the node.
func (w *PeerHistory) Record(node [16]byte, l *History) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, err := w.load(node)
	if err != nil || l.Number <= known.Number {
		return err
	}
	newest := l.Newest()
	value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, newest.Number), newest.Mark)
	if err := w.rows.Set(keys.IdentityID, peerKey(node), value); err != nil {
		return fmt.Errorf("cannot store the start of another node: %w", err)
	}
	w.seen[node] = newest
	return nil
}

// load returns the last recorded start of a node. The caller must hold mu.
func (w *PeerHistory) load(node [16]byte) (Start, error) {
	if s, ok := w.seen[node]; ok {
		return s, nil
	}
	value, err := w.rows.Get(keys.IdentityID, peerKey(node))
	if err != nil || value == nil {
		return Start{}, err
	}
	if len(value) != 16 {
		return Start{}, fmt.Errorf("last seen start of node %x: %w", node, ErrMalformed)
	}
	s := Start{binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])}
	w.seen[node] = s
	return s, nil
}
