// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
)

// indexRecorder is a completion that records the index of its write.
type indexRecorder struct {
	index uint64
	done  chan error
}

func (c *indexRecorder) At(index uint64) { c.index = index }

func (c *indexRecorder) Done(err error) { c.done <- err }

func (c *indexRecorder) CASDone(_ *command.CASResult, err error) { c.done <- err }

// TestRepeatHasAnIndex checks that a write, also a conditional one, that is sent again after it was applied gets an
// index at which it is visible: a read at ONE on the node that acknowledges it waits for that index.
func TestRepeatHasAnIndex(t *testing.T) {
	w := newWorld(t, 3)
	p := w.newTable(0, 1, 2)
	r := w.replica(w.leader(p.ID), p.ID)
	send := map[string]func(c *indexRecorder) error{
		"write": func(c *indexRecorder) error {
			m := put("k", 1)
			m.Dedupe = sequence(1)
			return r.Write(t.Context(), m, c)
		},
		"conditional": func(c *indexRecorder) error {
			m := add("n", 1)
			m.Mutation.Dedupe = sequence(2)
			return r.ConditionalWrite(t.Context(), m, c)
		},
	}
	for name, attempt := range send {
		var indexes [2]uint64
		for i := range indexes {
			c := &indexRecorder{done: make(chan error, 1)}
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
