// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// concurrency records how many readers are visiting a row at the same time.
type concurrency struct{ now, most atomic.Int64 }

func (m *concurrency) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (m *concurrency) Row([]byte, *row.Row) (command.Step, error) {
	for n, old := m.now.Add(1), m.most.Load(); n > old && !m.most.CompareAndSwap(old, n); {
		old = m.most.Load()
	}
	time.Sleep(2 * time.Millisecond) // give several readers time to reach the row
	m.now.Add(-1)
	return command.More, nil
}

// TestLargeRows checks that readers of a row that exceeds the memory for large rows run one at a time if the row's size
// is known. Other readers must not be delayed. A waiting reader must fail when its context ends or after a time limit.
func TestLargeRows(t *testing.T) {
	s := openMem(t, Options{LargeRowBytes: 8 << 20, LargeRowWait: 5 * time.Second})
	large := mutation("large", "", 1, func(b *row.Builder) {
		for i := range uint32(30_000) {
			b.Cell(1, binary.BigEndian.AppendUint32(nil, i), []byte("v"), 0, row.NoExpiry)
		}
	})
	apply(t, s, large, insert("small", "", 1))
	read := func(ctx context.Context, pk string, v command.Visitor) error {
		return s.Read(ctx, &command.Read{Table: testTable, Key: []byte(pk), Token: token.Hash([]byte(pk))}, v)
	}
	if err := read(t.Context(), "large", &concurrency{}); err != nil {
		t.Fatal(err)
	}
	var at, at2 concurrency
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := read(t.Context(), "large", &at); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := read(t.Context(), "small", &at2); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if at.most.Load() != 1 {
		t.Errorf("%d readers of the large row at a time", at.most.Load())
	}
	inside, leave := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		if err := read(t.Context(), "large", &pause{inside, leave}); err != nil {
			t.Error(err)
		}
	})
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := read(ctx, "large", &at); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader whose client has disconnected: %v", err)
	}
	s.large.waitMax = time.Millisecond
	if err := read(t.Context(), "large", &at); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reader that waits for long: %v", err)
	}
	if err := read(t.Context(), "small", &at2); err != nil {
		t.Error(err)
	}
	close(leave)
	wg.Wait()
	if s.large.used != 0 || len(s.large.waiters) != 0 {
		t.Errorf("%d bytes are still taken, %d wait", s.large.used, len(s.large.waiters))
	}
}

// pause is a visitor that waits at its row.
type pause struct{ inside, leave chan struct{} }

func (p *pause) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (p *pause) Row([]byte, *row.Row) (command.Step, error) {
	close(p.inside)
	<-p.leave
	return command.More, nil
}
