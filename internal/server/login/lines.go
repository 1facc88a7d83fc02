// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"net/netip"
	"sync"
)

// lines has the clients of one network wait for each other before they wait with others: however many of them come at
// once, they keep one of the clean queue's places busy, and it is known of the next one whether the one before failed.
type lines struct {
	mu sync.Mutex
	of map[netip.Prefix]*line
}

// line is that of one network, which is there as long as somebody is in it.
type line struct {
	network netip.Prefix
	turn    chan struct{} // has room for one
	length  int
}

// lineMax is how many of one network may be in its line: a driver that opens its connections, not more.
const lineMax = 64

// join waits until it is a client's turn. It returns nil if there are too many of its network.
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

// leave lets the next one of a line have its turn.
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
