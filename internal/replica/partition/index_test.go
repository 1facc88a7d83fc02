// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
)

// TestRepeatHasAnIndex checks that the retry of an applied write returns an index at which the write is visible. A read
// at ONE on the acknowledging node waits for that index. The test includes conditional writes.
func TestRepeatHasAnIndex(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	r := w.replica(w.leader(p.ID), p.ID)
	send := map[string]func(c command.OutcomeChannel) error{
		"write": func(c command.OutcomeChannel) error {
			m := put("k", 1)
			m.Dedupe = sequence(1)
			return r.Write(t.Context(), m, c)
		},
		"conditional": func(c command.OutcomeChannel) error {
			m := add("n", 1)
			m.Mutation.Dedupe = sequence(2)
			return r.ConditionalWrite(t.Context(), m, c)
		},
	}
	for name, attempt := range send {
		var indexes [2]uint64
		for i := range indexes {
			c := make(command.OutcomeChannel, 1)
			if err := attempt(c); err != nil {
				t.Fatal(err)
			}
			o := <-c
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			indexes[i] = o.Index
		}
		if indexes[0] == 0 || indexes[1] < indexes[0] {
			t.Errorf("%s: the first attempt returned index %d, the second attempt %d", name, indexes[0], indexes[1])
		}
	}
}
