// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"net/netip"
	"sync"
)

// lines serializes the clients of a network before they enter the shared queue. Therefore, all clients of a network
// together use one slot of the queue. Each attempt sees the failures of the previous attempts.
type lines struct {
	mu sync.Mutex
	of map[netip.Prefix]*line
}

// line is the queue of one network. It exists while clients are in the queue.
type line struct {
	network netip.Prefix
	turn    chan struct{} // a buffered channel with room for one token
	length  int
}

// lineMax is the maximum number of clients in the line of a network. The number suffices for a driver that opens all
// of its connections at the same time.
const lineMax = 64

// join waits for a client's turn. It returns nil if too many clients of the same network are already waiting.
func (l *lines) join(ctx context.Context, n netip.Prefix) (*line, error) {
	l.mu.Lock()
	in := l.of[n]
	if in == nil {
		if l.of == nil {
			l.of = map[netip.Prefix]*line{}
		}
		in = &line{network: n, turn: make(chan struct{}, 1)}
		l.of[n] = in
	}
	if in.length == lineMax {
		l.mu.Unlock()
		return nil, nil
	}
	in.length++
	l.mu.Unlock()
	select {
	case in.turn <- struct{}{}:
		return in, nil
	case <-ctx.Done():
		l.out(in)
		return nil, context.Cause(ctx)
	}
}

// leave lets the next client of a line proceed.
func (l *lines) leave(in *line) {
	<-in.turn
	l.out(in)
}

func (l *lines) out(in *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.length--; in.length == 0 {
		delete(l.of, in.network)
	}
}
