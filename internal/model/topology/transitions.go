// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/token"
)

// PartitionsMax is the maximum number of physical partitions of a table.
const PartitionsMax = 1 << 16

// Place is the placement of a new partition in a region. It lists the nodes of the replica set. The first node becomes
// the leader.
type Place struct {
	Region string
	Nodes  []NodeID
}

// WithLevel returns a topology with a higher feature level. If s already has the level, WithLevel returns s itself.
// The level never decreases.
func (s *Snapshot) WithLevel(level feature.Level) *Snapshot {
	if level <= s.level {
		return s
	}
	out := s.next()
	out.level = level
	return out.Snapshot
}

// Piece is a part of a new table. It starts at Begin, ends at the start of the next piece, and has replicas at Places.
type Piece struct {
	Begin  Position
	Places []Place
}

// Equal divides the ring into n pieces with equal shares of the tokens. All pieces have the same places.
func Equal(n int, places []Place) []Piece {
	pieces := make([]Piece, 0, max(n, 0))
	if n < 1 || n > PartitionsMax {
		return pieces
	}
	for _, r := range token.Full.Divide(n) {
		pieces = append(pieces, Piece{Position{Ring: r.Begin}, places})
	}
	return pieces
}

// AddTable adds a table with n partitions. The partitions have equal shares of the tokens, and replicas at the given
// places.
func (s *Snapshot) AddTable(table uint32, n int, places []Place) (*Snapshot, error) {
	if n < 1 || n > PartitionsMax {
		return nil, fmt.Errorf("a table cannot have %d partitions", n)
	}
	return s.CutTable(table, Equal(n, places))
}

// CutTable adds a table with the given pieces. The pieces must be in ring order, and the first piece must start at the
// start of the ring.
func (s *Snapshot) CutTable(table uint32, pieces []Piece) (*Snapshot, error) {
	if len(pieces) < 1 || len(pieces) > PartitionsMax {
		return nil, fmt.Errorf("a table cannot have %d partitions", len(pieces))
	}
	if s.Partitions(table) != nil || table == MetaTable {
		return nil, fmt.Errorf("table %d already exists in the topology", table)
	}
	out := s.next()
	ps := make([]*Partition, 0, len(pieces))
	for i, piece := range pieces {
		p := &Partition{
			ID:    out.nextPartition,
			Table: table,
			Epoch: 1,
			Level: s.level,
			Sets:  out.sets(piece.Places),
			Span:  Span{Begin: piece.Begin},
		}
		if i+1 < len(pieces) {
			p.Span.Limit = pieces[i+1].Begin
		}
		out.nextPartition++
		ps = append(ps, p)
	}
	out.set(table, ps, nil, ps)
	if err := newValidator(out.Snapshot).table(table); err != nil {
		return nil, err
	}
	return out.Snapshot, nil
}

// AddMeta adds the meta partition at the places.
func (s *Snapshot) AddMeta(places []Place) (*Snapshot, error) {
	if s.meta != nil {
		return nil, errors.New("the meta partition already exists")
	}
	out := s.next()
	out.meta = &Partition{ID: MetaPartition, Table: MetaTable, Epoch: 1, Level: s.level, Sets: out.sets(places)}
	if err := newValidator(out.Snapshot).members(out.meta); err != nil {
		return nil, err
	}
	return out.Snapshot, nil
}

// DropTable removes a table and its partitions. If the table does not exist, only the version changes.
func (s *Snapshot) DropTable(table uint32) *Snapshot {
	out := s.next()
	out.set(table, nil, s.Partitions(table), nil)
	return out.Snapshot
}
