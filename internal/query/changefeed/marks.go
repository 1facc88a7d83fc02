// SPDX-License-Identifier: Apache-2.0

package changefeed

import (
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// mark is a stamp that applies from a ring position to the next mark. The stamp of the first mark in a list also
// applies to all earlier positions.
type mark struct {
	at    keys.Position
	stamp int64
}

// marks is a non-empty list of marks in position order.
type marks []mark

// marksMax is the maximum number of marks in a token. The value exceeds the number of physical partitions.
const marksMax = 1 << 14

// compact removes each mark that has the same stamp as the preceding mark.
func (m marks) compact() marks {
	out := m[:0]
	for _, k := range m {
		if len(out) == 0 || out[len(out)-1].stamp != k.stamp {
			out = append(out, k)
		}
	}
	return out
}

// find returns the stamp that applies at a position. end is the position of the next mark. If the stamp applies up to
// the end of the ring, end is nil.
func (m marks) find(at keys.Position) (stamp int64, end *keys.Position) {
	i, _ := slices.BinarySearchFunc(m, at, func(k mark, at keys.Position) int {
		if k.at.Compare(at) <= 0 {
			return -1
		}
		return 1
	})
	if i < len(m) {
		end = &m[i].at
	}
	return m[max(i-1, 0)].stamp, end
}

// raised returns a list that contains the maximum of two lists for each position.
func (m marks) raised(by marks) marks {
	var out marks
	for at := (keys.Position{}); ; {
		a, endA := m.find(at)
		b, endB := by.find(at)
		out = append(out, mark{at, max(a, b)})
		end := endA
		if end == nil || endB != nil && endB.Compare(*end) < 0 {
			end = endB
		}
		if end == nil {
			return out.compact()
		}
		at = *end
	}
}

func readMarks(r *codec.Reader) (m marks) {
	n := r.Count(3)
	if n == 0 || n > marksMax {
		r.Fail()
	}
	last := int64(0)
	for range n {
		k := mark{at: keys.Position{Ring: r.Uint(), Key: slices.Clone(r.Bytes())}}
		k.stamp = last + r.Int()
		last = k.stamp
		if r.Err() != nil {
			return nil
		}
		if len(m) > 0 && m[len(m)-1].at.Compare(k.at) >= 0 || k.stamp < 0 {
			r.Fail()
			return nil
		}
		m = append(m, k)
	}
	return m
}

// append appends the encoded marks. readMarks decodes the marks.
func (m marks) append(w *codec.Writer) {
	w.Uint(uint64(len(m)))
	last := int64(0)
	for _, k := range m {
		w.Uint(k.at.Ring)
		w.Bytes(k.at.Key)
		w.Int(k.stamp - last)
		last = k.stamp
	}
}

// Partition implements command.Visitor. The next call of Row receives the horizon of the physical partition.
func (m *marks) Partition(tok token.Token, key []byte, _ *row.Row) (command.Step, error) {
	at := keys.Position{Ring: tok.Position(), Key: append([]byte(nil), key...)}
	*m = append(*m, mark{at: at})
	return command.More, nil
}

// Row implements command.Visitor.
func (m *marks) Row(clustering []byte, _ *row.Row) (command.Step, error) {
	if len(clustering) != 8 || len(*m) == 0 {
		return command.Stop, errMalformed
	}
	(*m)[len(*m)-1].stamp = int64(binary.BigEndian.Uint64(clustering))
	return command.More, nil
}
