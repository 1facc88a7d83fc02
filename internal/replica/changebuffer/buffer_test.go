// SPDX-License-Identifier: Apache-2.0

package changebuffer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func read(t *testing.T, j *Buffer, partition, after, upto uint64) (out []string, err error) {
	t.Helper()
	err = j.Each(partition, after, upto, func(index uint64, c []byte) bool {
		out = append(out, fmt.Sprintf("%d:%s", index, c))
		return true
	})
	return out, err
}

// TestIntervals checks that the buffer returns its entries, in order, for every interval that it contains. It must
// reject intervals that are too old, not yet complete, after a gap, or before the first entry.
func TestIntervals(t *testing.T) {
	j := New(1 << 20)
	defer j.Close()
	if j.Run() != 0 || (*Buffer)(nil).Run() != 0 {
		t.Fatal("a buffer is active without a request")
	}
	j.KeepAlive()
	run := j.Run()
	j.Add(run, 1, 11, []byte("a"))
	j.Add(run, 1, 11, []byte("b"))
	j.EndEntry(run, 1, 11)
	j.Add(run, 2, 500, []byte("other"))
	j.EndEntry(run, 2, 500)
	j.EndEntry(run, 1, 12) // an entry without commands
	j.Add(run, 1, 13, []byte("c"))
	if _, err := read(t, j, 1, 10, 13); !errors.Is(err, ErrGone) {
		t.Errorf("an entry of which more may come: %v", err)
	}
	j.EndEntry(run, 1, 13)
	for _, c := range []struct {
		partition, after, upto uint64
		want                   string
	}{
		{1, 10, 13, "11:a 11:b 13:c"}, {1, 10, 11, "11:a 11:b"}, {1, 11, 12, ""}, {1, 12, 13, "13:c"},
		{1, 13, 13, ""}, {2, 499, 500, "500:other"}, {3, 7, 7, ""},
	} {
		got, err := read(t, j, c.partition, c.after, c.upto)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("partition %d (%d, %d]: %q, %v", c.partition, c.after, c.upto, got, err)
		}
	}
	for _, c := range [][3]uint64{{1, 9, 13}, {1, 10, 14}, {2, 498, 500}, {3, 7, 8}} {
		if got, err := read(t, j, c[0], c[1], c[2]); !errors.Is(err, ErrGone) || got != nil {
			t.Errorf("partition %d (%d, %d] is not here: %q, %v", c[0], c[1], c[2], got, err)
		}
	}
	j.Add(run, 1, 20, []byte("after a snapshot"))
	j.EndEntry(run, 1, 20)
	if _, err := read(t, j, 1, 12, 20); !errors.Is(err, ErrGone) {
		t.Errorf("a hole was passed over: %v", err)
	}
	if got, err := read(t, j, 1, 19, 20); err != nil || len(got) != 1 {
		t.Errorf("after the gap: %q %v", got, err)
	}
	j.Add(run+1, 1, 21, []byte("of another run"))
	j.EndEntry(run+1, 1, 21)
	if _, err := read(t, j, 1, 20, 21); !errors.Is(err, ErrGone) {
		t.Errorf("entry that began before the buffer was active: got %v", err)
	}
}

// TestBound checks that a buffer stays within its memory limit and drops the oldest entries first. The test also
// checks that the reported interval contains exactly the added entries, with a concurrent reader.
func TestBound(t *testing.T) {
	const bound = 64 << 10
	j := New(bound)
	defer j.Close()
	j.KeepAlive()
	run := j.Run()
	rng := rand.New(rand.NewPCG(1, 2))
	var last [4]uint64
	largest := 0
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = j.Each(1, 100, 5000, func(_ uint64, c []byte) bool { return len(c) > 0 })
			}
		}
	})
	for i := range 5000 {
		p := rng.IntN(len(last))
		last[p]++
		for range rng.IntN(3) {
			c := slices.Repeat(fmt.Appendf(nil, "%d/%d ", p, last[p]), 1+rng.IntN(100))
			largest = max(largest, len(c))
			j.Add(run, uint64(p), last[p], c)
		}
		j.EndEntry(run, uint64(p), last[p])
		if l := j.Stats(); l.Bytes > bound+int64(largest)+overhead {
			t.Fatalf("%d bytes are kept, the bound is %d", l.Bytes, bound)
		}
		if i%250 != 0 {
			continue
		}
		for q, upto := range last {
			after := upto
			for after > 0 && j.Each(uint64(q), after-1, upto, func(uint64, []byte) bool { return true }) == nil {
				after--
			}
			err := j.Each(uint64(q), after, upto, func(index uint64, c []byte) bool {
				if want := fmt.Sprintf("%d/%d ", q, index); index <= after || !strings.HasPrefix(string(c), want) {
					t.Fatalf("partition %d has %q for entry %d", q, c, index)
				}
				return true
			})
			if err != nil && !errors.Is(err, ErrGone) {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	reading.Wait()
	if j.Stats().Lost == 0 {
		t.Error("no list was dropped, so the test checks nothing")
	}
}

// TestIdle checks that a buffer is inactive and empty after a minute without KeepAlive, and that KeepAlive keeps it
// active. Entries added after a pause must not be returned as the complete history.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(1 << 20)
		j.KeepAlive()
		run := j.Run()
		for range 10 {
			time.Sleep(IdleMax / 2)
			j.KeepAlive()
		}
		j.Add(run, 1, 5, []byte("x"))
		j.EndEntry(run, 1, 5)
		if j.Run() != run {
			t.Error("the window was reset while requests were in progress")
		}
		time.Sleep(IdleMax + time.Second)
		if l := j.Stats(); l.On || l.Bytes != 0 || j.Run() != 0 {
			t.Errorf("the buffer is active after a pause: %+v", l)
		}
		j.KeepAlive()
		j.Add(run, 1, 6, []byte("late"))
		j.EndEntry(run, 1, 6)
		if err := j.Each(1, 4, 6, func(uint64, []byte) bool { return true }); !errors.Is(err, ErrGone) {
			t.Errorf("entries of an earlier run exist: %v", err)
		}
		_ = j.Close()
		if j.KeepAlive(); j.Run() != 0 {
			t.Error("the buffer is active after Close")
		}
	})
}
