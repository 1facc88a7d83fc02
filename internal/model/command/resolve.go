// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Resolve turns the updates of c, whose effect depends on found (as for Check), into operands, and appends them to ops. stamp
// is the leader's, or row.Unstamped if it stamps them later. Updates see the rows as they were found, but counters see the additions before them in the same command. A counter's
// cell always gets the leader's stamp: only so do additions never overtake each other. Errors are *dberr.Invalid with Cassandra's
// texts.
func Resolve(ops []Op, c *Conditional, found []*row.Row, stamp int64) ([]Op, error) {
	if len(c.Updates) == 0 {
		return ops, nil
	}
	var b row.Builder
	sums := counterSums{}
	for n := range c.Rows {
		b.Reset(stamp)
		for i := range c.Updates {
			u := &c.Updates[i]
			if u.Row < 0 || u.Row >= len(c.Rows) || u.Row >= len(found) {
				return nil, fmt.Errorf("update of row %d of %d: %w", u.Row, len(c.Rows), ErrMalformed)
			}
			if u.Row != n {
				continue
			}
			if err := u.resolve(&b, c.Now, found[n], sums); err != nil {
				return nil, err
			}
		}
		if b.Empty() {
			continue
		}
		op := Op{Kind: OpRow, Clustering: c.Rows[n].Clustering, Operand: b.Append(nil)}
		if c.Rows[n].Static {
			op.Kind, op.Clustering = OpHeader, nil
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// counterSums holds the value of each counter that the command has added to.
type counterSums map[counterPlace]int64

type counterPlace struct {
	row    int
	column uint32
}

func (u *Update) resolve(b *row.Builder, now int64, found *row.Row, sums counterSums) error {
	var cells []row.Cell
	if found != nil {
		cells = found.Column(u.Column)
	}
	switch u.Kind {
	case CounterAdd:
		return u.add(b, cells, sums)
	case ListSetAt:
		if len(u.Args) != 2 {
			return fmt.Errorf("list update with %d arguments: %w", len(u.Args), ErrMalformed)
		}
		path, err := u.place(cells, "Attempted to set an element on a list which is null")
		if err != nil {
			return err
		}
		if u.Args[1] == nil {
			u.remove(b, path, now)
		} else if u.Timestamp == row.Unstamped {
			b.Cell(u.Column, path, u.Args[1], u.TTL, u.Expiry)
		} else {
			b.CellAt(u.Column, path, u.Args[1], u.Timestamp, u.TTL, u.Expiry)
		}
	case ListDeleteAt:
		path, err := u.place(cells, "Attempted to delete an element from a list which is null")
		if err != nil {
			return err
		}
		u.remove(b, path, now)
	case ListDiscard:
		for i := range cells {
			if containsBytes(u.Args, cells[i].Value) {
				u.remove(b, cells[i].Path, now)
			}
		}
	default:
		return fmt.Errorf("update kind %d: %w", u.Kind, ErrMalformed)
	}
	return nil
}

// remove deletes an element.
func (u *Update) remove(b *row.Builder, path []byte, now int64) {
	if u.Timestamp == row.Unstamped {
		b.Tombstone(u.Column, path, now)
	} else {
		b.TombstoneAt(u.Column, path, u.Timestamp, now)
	}
}

// add puts the new total of a counter. It wraps, as Cassandra's do.
func (u *Update) add(b *row.Builder, cells []row.Cell, sums counterSums) error {
	if len(u.Args) != 1 || len(u.Args[0]) != 8 {
		return dberr.Invalidf("Invalid null value for counter increment")
	}
	place := counterPlace{u.Row, u.Column}
	total, ok := sums[place]
	if !ok && len(cells) > 0 && len(cells[0].Value) == 8 {
		total = int64(binary.BigEndian.Uint64(cells[0].Value))
	}
	total += int64(binary.BigEndian.Uint64(u.Args[0]))
	sums[place] = total
	b.Cell(u.Column, nil, binary.BigEndian.AppendUint64(nil, uint64(total)), 0, row.NoExpiry)
	return nil
}

// place is the path of the list element that Args[0] counts to.
func (u *Update) place(cells []row.Cell, ifNull string) ([]byte, error) {
	if len(u.Args) == 0 {
		return nil, fmt.Errorf("list update without an index: %w", ErrMalformed)
	}
	i, err := listIndex(u.Args[0])
	if err != nil {
		return nil, err
	}
	if len(cells) == 0 {
		return nil, dberr.Invalidf("%s", ifNull)
	}
	if i < 0 || i >= len(cells) {
		return nil, dberr.Invalidf("List index %d out of bound, list has size %d", i, len(cells))
	}
	return cells[i].Path, nil
}

func containsBytes(set [][]byte, b []byte) bool {
	for _, e := range set {
		if bytes.Equal(e, b) {
			return true
		}
	}
	return false
}
