// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// FullText is in the refusal of what adds to a logical partition that is full, whichever node it comes from.
const FullText = " has reached its maximum size "

const (
	// heavyBits say how many bytes are written to each write that is sampled by its weight: 1 << heavyBits.
	heavyBits = 16
	// HeavyBytes is how many written bytes a sample of Heavy stands for.
	HeavyBytes = 1 << heavyBits
	// heavyMax is how many samples wait to be fetched; newer ones take the place of older ones.
	heavyMax = 256
)

// heavy are places that much was written to: a logical partition is among them as often as it was written 64 KiB.
type heavy struct {
	next  atomic.Uint64
	place [heavyMax]atomic.Uint64
}

// weighed notes a write, after which bytes were written in all.
func (r *Replica) weighed(bytes, all int64, tok token.Token) {
	if all>>heavyBits == (all-bytes)>>heavyBits {
		return
	}
	h := r.heavy.Load()
	if h == nil {
		if h = new(heavy); !r.heavy.CompareAndSwap(nil, h) {
			h = r.heavy.Load()
		}
	}
	h.place[h.next.Add(1)%heavyMax].Store(tok.Position())
	r.host.wakeHeavy()
}

// Heavy passes on places that much was written to since it was called last, one of them for each HeavyBytes. One
// goroutine at a time calls it; from is where the time before ended, 0 at first, and it returns where this one did.
func (r *Replica) Heavy(from uint64, visit func(tok token.Token)) (to uint64) {
	h := r.heavy.Load()
	if h == nil {
		return 0
	}
	to = h.next.Load()
	if to < from {
		from = 0
	}
	for i := max(from, to-min(to, heavyMax)); i < to; i++ {
		visit(token.AtPosition(h.place[(i+1)%heavyMax].Load()))
	}
	return to
}

// Near is a logical partition that comes near to what it may have. Its methods may be used concurrently.
type Near struct {
	Token token.Token
	// Name is the logical partition in words, Limit how many bytes it may have.
	Name  string
	Limit int64

	// bytes is what was measured plus what was written since. full is set when more than Limit was measured.
	bytes atomic.Int64
	full  atomic.Bool
}

// slackPart is the part of the limit that may be written until it was measured.
const slackPart = 50

// Measured notes what a logical partition has, of which since was the value of Bytes when it began to be measured.
func (n *Near) Measured(bytes, since int64) {
	n.bytes.Add(bytes - since)
	n.full.Store(bytes >= n.Limit)
}

// Bytes is what was measured plus what was written since: what it has, or more.
func (n *Near) Bytes() int64 { return n.bytes.Load() }

// Full reports whether it was measured to have all that it may.
func (n *Near) Full() bool { return n.full.Load() }

// SetNear has the writes of logical partitions watched, and refused where they would exceed their limit. Those that are
// not among them are not watched any more.
func (r *Replica) SetNear(list []*Near) {
	if len(list) == 0 {
		r.near.Store(nil)
		return
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *Near) int { return cmp.Compare(a.Token, b.Token) })
	r.near.Store(&list)
}

// fits refuses a mutation that adds to a logical partition which has all that it may. What only deletes is let through,
// and so is a part of a batch over several partitions, which has its stamp: others of its parts may be written already;
// and what is sent again, which may be done.
func (r *Replica) fits(m *command.Mutation) error {
	list := r.near.Load()
	if list == nil || m.Timestamp != 0 || m.Retried {
		return nil
	}
	i, ok := slices.BinarySearchFunc(*list, m.Token, func(n *Near, t token.Token) int {
		return cmp.Compare(n.Token, t)
	})
	if !ok || !grows(m) {
		return nil
	}
	n := (*list)[i]
	_, bytes := ru.Write(m)
	if !n.full.Load() && n.bytes.Load()+bytes > n.Limit+n.Limit/slackPart {
		// It may be full, or was written over: asked again, it has been measured.
		r.host.wakeHeavy()
		return &NotLeader{Partition: r.id}
	}
	if n.full.Load() {
		return &dberr.Invalid{Message: fmt.Sprintf("The logical partition %s"+FullText+"of %d bytes: "+
			"what adds to it is refused, reads and deletes are not. A partition key with more values would divide it",
			n.Name, n.Limit)}
	}
	if n.bytes.Add(bytes) > n.Limit {
		r.host.wakeHeavy()
	}
	return nil
}

// grows reports whether a mutation sets anything in rows. Index entries are not part of what a logical partition is
// measured by, so the build of an index, which writes entries alone, is not refused.
func grows(m *command.Mutation) bool {
	for i := range m.Ops {
		switch op := &m.Ops[i]; op.Kind {
		case command.OpIndex, command.OpChange:
		default:
			if sets, _, err := row.Check(op.Operand); sets && err == nil {
				return true
			}
		}
	}
	return false
}

// wakeHeavy tells that there is something to look at.
func (h *Host) wakeHeavy() {
	select {
	case h.heavy <- struct{}{}:
	default:
	}
}

// HeavyWrites is told when Heavy may have something new, or a Near has come to its limit.
func (h *Host) HeavyWrites() <-chan struct{} { return h.heavy }
