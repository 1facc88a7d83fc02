// SPDX-License-Identifier: Apache-2.0

package raftgroup

import "sync"

// queue passes work to goroutines in order.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	wake  chan struct{}
}

func (q *queue[T]) init() { q.wake = make(chan struct{}, 1) }

func (q *queue[T]) put(items []T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	if q.items == nil {
		q.items = items
	} else {
		q.items = append(q.items, items...)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// serve repeatedly calls f with all queued items.
func serve[T any](r *Runner, q *queue[T], f func([]T)) {
	for {
		select {
		case <-r.stop:
			return
		case <-q.wake:
		}
		q.mu.Lock()
		items := q.items
		q.items = nil
		q.mu.Unlock()
		if len(items) > 0 {
			f(items)
		}
	}
}

// serveOne repeatedly calls f with one item. Several goroutines may serve one queue.
func serveOne[T any](r *Runner, q *queue[T], f func(T)) {
	for {
		select {
		case <-r.stop:
			return
		case <-q.wake:
		}
		q.mu.Lock()
		n := len(q.items)
		var item T
		if n > 0 {
			item = q.items[0]
			q.items = append([]T(nil), q.items[1:]...)
		}
		q.mu.Unlock()
		if n > 1 {
			q.signal()
		}
		if n > 0 {
			f(item)
			q.signal()
		}
	}
}
