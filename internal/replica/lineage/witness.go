// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// Witness remembers the starts of other nodes, in the store of rows, too. It is safe for concurrent use.
type Witness struct {
	rows Rows
	mu   sync.Mutex
	seen map[[16]byte]Start
}

// NewWitness returns a witness that knows what an earlier one has stored.
func NewWitness(rows Rows) *Witness { return &Witness{rows: rows, seen: map[[16]byte]Start{}} }

// seenKey is the key, under keys.IdentityID, of what was seen of a node.
func seenKey(node [16]byte) []byte { return append([]byte("seen "), node[:]...) }

// Accepts reports whether a node's directory has gone on from what was seen of it here and from what is recorded
// elsewhere.
func (w *Witness) Accepts(node [16]byte, l *Lineage, recorded Start) (bool, error) {
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

// Saw remembers the newest start of a node that was let in, durably: whoever starts from an earlier one is refused from
// now on.
func (w *Witness) Saw(node [16]byte, l *Lineage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, err := w.load(node)
	if err != nil || l.Number <= known.Number {
		return err
	}
	newest := l.Newest()
	value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, newest.Number), newest.Mark)
	if err := w.rows.Set(keys.IdentityID, seenKey(node), value); err != nil {
		return fmt.Errorf("store the start of another node: %w", err)
	}
	w.seen[node] = newest
	return nil
}

// load returns what was seen of a node. mu is held.
func (w *Witness) load(node [16]byte) (Start, error) {
	if s, ok := w.seen[node]; ok {
		return s, nil
	}
	value, err := w.rows.Get(keys.IdentityID, seenKey(node))
	if err != nil || value == nil {
		return Start{}, err
	}
	if len(value) != 16 {
		return Start{}, fmt.Errorf("what was seen of node %x: %w", node, ErrMalformed)
	}
	s := Start{binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])}
	w.seen[node] = s
	return s, nil
}
