// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/ilion-db/ilion/test/sim/world"
)

// transitMost is how long a request may be on its way; who carries them drops older ones (see package partition, Mutation.Retried).
const transitMost = time.Second

// ask brings a request to a node, where serve runs as a task of its process, and its answer back; answer is called in the life of the
// node that asked, if the answer arrives.
func (w *simulation) ask(from *node, to *node, serve func(t *world.Task, reply func(answer func()))) {
	sent, asked, target := w.Now, from.Life, to.self()
	var arrive func()
	arrive = func() {
		switch {
		case to.Host == nil || to.self() != target || w.Net.Blocked(from.ID, to.ID) || w.Now-sent > transitMost:
			return
		case to.Paused > w.Now:
			w.After(to.Paused-w.Now, arrive)
			return
		}
		life := to.Life
		to.Spawn(func(t *world.Task) {
			serve(t, func(answer func()) {
				if to.Life != life {
					return // a process that is gone says nothing
				}
				w.After(w.Net.Delay(to.ID, from.ID), func() {
					if from.Life == asked && from.Host != nil && !w.Net.Blocked(to.ID, from.ID) {
						answer()
					}
				})
			})
		})
	}
	w.After(w.Net.Delay(from.ID, to.ID), arrive)
}
