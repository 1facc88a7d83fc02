// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// paceStep is the interval at which scheduled requests are sent.
const paceStep = time.Millisecond

// pace schedules the requests of an open loop and manages the free streams.
type pace struct {
	perSecond float64
	// streams holds the free streams, which belong to the sender. returned holds the streams of received responses.
	// They belong to the reader until the reader passes them to the sender.
	streams, returned []int16
	mu                sync.Mutex
	handed            []int16
	// sent and unsent count the scheduled requests. over is set when the sender has finished. The reader then knows
	// the total number of requests.
	sent     atomic.Int64
	finished atomic.Bool
	unsent   int64
}

func newPace(perSecond float64, inFlight int) *pace {
	p := &pace{perSecond: perSecond}
	for i := range inFlight {
		p.streams = append(p.streams, int16(i))
	}
	return p
}

// take returns a free stream. ok is false if all streams are in use.
func (p *pace) take() (int16, bool) {
	if len(p.streams) == 0 {
		p.mu.Lock()
		p.streams, p.handed = p.handed, p.streams
		p.mu.Unlock()
	}
	n := len(p.streams)
	if n == 0 {
		return 0, false
	}
	s := p.streams[n-1]
	p.streams = p.streams[:n-1]
	return s, true
}

// hand returns the streams of received responses to the sender.
func (p *pace) hand() {
	p.mu.Lock()
	p.handed = append(p.handed, p.returned...)
	p.mu.Unlock()
	p.returned = p.returned[:0]
}

// open sends requests at their scheduled times. At the same time, it reads responses.
func (l *loader) open(ph *atomic.Int32) {
	var reader sync.WaitGroup
	var unread error
	reader.Go(func() { unread = l.collect(ph) })
	err := l.emit(ph)
	l.pace.finished.Store(true)
	wait := drainMax
	if err != nil || l.done.Load() == l.pace.sent.Load() {
		wait = 0 // no response will arrive
	}
	if e := l.conn.SetDeadline(time.Now().Add(wait)); err == nil {
		err = e
	}
	reader.Wait()
	if l.broken = err; err == nil {
		l.broken = unread
	}
}

// emit sends requests until the run stops.
func (l *loader) emit(ph *atomic.Int32) error {
	p, due := l.pace, int64(0)
	for tick := time.NewTicker(paceStep); ; <-tick.C {
		now := phase(ph.Load())
		if now == stopping {
			tick.Stop()
			return nil
		}
		for end := int64(time.Since(l.begin).Seconds() * p.perSecond); due < end; due++ {
			s, ok := p.take()
			if !ok {
				if now == measuring {
					p.unsent++
				}
				continue
			}
			l.started[s].Store(int64(float64(due) / p.perSecond * float64(time.Second)))
			l.out = l.next(l.out, s)
			p.sent.Add(1)
		}
		if len(l.out) > 0 {
			if _, err := l.conn.Write(l.out); err != nil {
				tick.Stop()
				return err
			}
			l.out = l.out[:0]
		}
	}
}

// collect reads responses until all requests have been answered.
func (l *loader) collect(ph *atomic.Int32) error {
	for p := l.pace; !p.finished.Load() || l.done.Load() < p.sent.Load(); p.hand() {
		n, err := l.conn.Read(l.in[len(l.in):cap(l.in)])
		if err != nil {
			if ne := net.Error(nil); p.finished.Load() && errors.As(err, &ne) && ne.Timeout() {
				return nil
			}
			return fmt.Errorf("read: %w", err)
		}
		l.in = l.in[:len(l.in)+n]
		l.answers(phase(ph.Load()))
	}
	return nil
}
