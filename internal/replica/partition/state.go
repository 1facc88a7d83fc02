// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// state describes the span and the epoch of a replica. It is immutable. While the replica waits for its first snapshot,
// the table of keys is 0.
type state struct {
	span  topology.Span
	keys  keys.Span
	epoch uint64
	// frozen is keys.Meta.Frozen.
	frozen uint64
}

// serves reports whether the replica serves requests for a position.
func (s *state) serves(p topology.Position) bool { return s.frozen == 0 && s.span.Holds(p) }

func stateOf(m *keys.Meta) (*state, error) {
	span, err := topology.SpanOf(m.Span)
	if err != nil {
		return nil, err
	}
	return &state{span: span, keys: m.Span, epoch: m.Epoch, frozen: m.Frozen}, nil
}

// currentState is the state that a replica publishes to its requests.
type currentState struct{ state atomic.Pointer[state] }

// Table returns the table whose rows the replica holds.
func (c *currentState) Table() uint32 { return c.state.Load().keys.Table }

// Span returns the current span and epoch of the replica.
func (c *currentState) Span() (topology.Span, uint64) {
	s := c.state.Load()
	return s.span, s.epoch
}

// Extent returns the current extent of the replica.
func (c *currentState) Extent() Extent {
	s := c.state.Load()
	return Extent{Epoch: s.epoch, Span: s.keys}
}

// Frozen returns the log index of the durable freeze that this replica has applied, or 0 if the partition serves
// requests.
func (c *currentState) Frozen() uint64 { return c.state.Load().frozen }
