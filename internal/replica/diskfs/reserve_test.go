// SPDX-License-Identifier: Apache-2.0

package diskfs

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// process counts the free descriptors of a simulated process.
type process struct{ free atomic.Int64 }

// open takes one descriptor.
func (p *process) open() (io.Closer, error) {
	if p.free.Add(-1) < 0 {
		p.free.Add(1)
		return nil, syscall.EMFILE
	}
	return p, nil
}

// Close frees the descriptor.
func (p *process) Close() error { p.free.Add(1); return nil }

// TestReserve checks that a store continues while clients use all other file descriptors (F5). No new client may be
// accepted during that time. New clients must be accepted when descriptors are free again.
func TestReserve(t *testing.T) {
	var p process
	p.free.Store(reserveFiles)
	told := make(chan bool, 1000)
	r := newReserve(p.open, func(low bool) { told <- low })
	defer r.Close()
	if r.Low() || p.free.Load() != 0 {
		t.Fatalf("low %t, %d are free", r.Low(), p.free.Load())
	}
	s := &small{FS: disk{errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpOpen, errorfs.OpOpenDir:
			if f, err := p.open(); err != nil {
				return err
			} else if f.Close() != nil || op.Kind == errorfs.OpCreate {
				p.free.Add(-1) // clients take the descriptor as soon as they can
			}
		}
		return nil
	}))}}
	s.free.Store(90 << 20)
	p.free.Store(1000) // enough descriptors for the start
	db, g, failed := s.open(t, Options{Reserve: r, Logger: unbroken{t: t}})
	p.free.Store(0)
	flush := func() {
		if err := errors.Join(db.Set([]byte("k"), []byte("v"), nil), db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		flush()
	}
	if !r.Low() || len(failed) > 0 || !<-told {
		t.Errorf("low %t, %d times work failed", r.Low(), len(failed))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var temporary interface{ Temporary() bool }
	if _, err := r.Listener(l).Accept(); !errors.Is(err, syscall.EMFILE) || !errors.As(err, &temporary) ||
		!temporary.Temporary() {
		t.Errorf("a client is let in: %v", err)
	}
	p.free.Store(1000) // the clients have closed their connections
	for low := range told {
		if !low {
			break
		}
	}
	flush()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in, err := r.Listener(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	g.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
