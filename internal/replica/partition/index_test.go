// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
)

// told is a completion that is told the index of its write.
type told struct {
	index uint64
	done  chan error
}

func (c *told) At(index uint64) { c.index = index }

func (c *told) Done(err error) { c.done <- err }

func (c *told) CASDone(_ *command.CASResult, err error) { c.done <- err }

// TestRepeatHasAnIndex proves that a write which is sent again after it was applied is told an index at which it is
// there, a conditional as well: a read at ONE on the node that acknowledges it waits for that.
func TestRepeatHasAnIndex(t *testing.T) {
	w := newWorld(t, 3)
	p := w.newTable(0, 1, 2)
	r := w.replica(w.leader(p.ID), p.ID)
	send := map[string]func(c *told) error{
		"write": func(c *told) error {
			m := put("k", 1)
			m.Dedupe = sequence(1)
			return r.Write(t.Context(), m, c)
		},
		"conditional": func(c *told) error {
			m := add("n", 1)
			m.Mutation.Dedupe = sequence(2)
			return r.ConditionalWrite(t.Context(), m, c)
		},
	}
	for name, attempt := range send {
		var indexes [2]uint64
		for i := range indexes {
			c := &told{done: make(chan error, 1)}
			if err := attempt(c); err != nil {
				t.Fatal(err)
			}
			if err := <-c.done; err != nil {
				t.Fatal(err)
			}
			indexes[i] = c.index
		}
		if indexes[0] == 0 || indexes[1] < indexes[0] {
			t.Errorf("%s: the first attempt is told index %d, the second one %d", name, indexes[0], indexes[1])
		}
	}
}
