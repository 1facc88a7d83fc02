// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
)

// gapRounds is the number of rounds of TestSplitGap, or 0 to skip the test.
var (
	gapRounds = flag.Int("gap", 0, "number of rounds of TestSplitGap; in each round a table splits into sixteen partitions")
	gapRate   = flag.Int("gap-rate", 0, "writes per second of TestSplitGap; 0 for no limit")
)

// gapWriters is the number of concurrent writers while a table splits.
const gapWriters = 24

// written is a completed write.
type written struct {
	place uint64
	at    time.Duration
	took  time.Duration
}

// gapLoad is a load of continuous writers. All writers write to the partition that is being split. With keys from the
// whole ring, a small half would receive too few writes for a measurement of its gap.
type gapLoad struct {
	t     *testing.T
	began time.Time
	stop  atomic.Bool
	// aim selects the tokens that the writers use.
	aim  atomic.Pointer[func(place uint64) bool]
	wg   sync.WaitGroup
	mu   sync.Mutex
	done []written
}

func (l *gapLoad) write(i int, m *member, table string) {
	c := m.dial()
	defer c.Close()
	for n := i; !l.stop.Load(); n += gapWriters {
		k, place := l.draw()
		if *gapRate > 0 {
			time.Sleep(time.Until(l.began.Add(time.Duration(n) * time.Second / time.Duration(*gapRate))))
		}
		began := time.Now()
		if _, err := c.Query(fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, 1)", table, k)); err != nil {
			l.t.Errorf("a write at %s: %v", m.name(), err)
			return
		}
		w := written{place, time.Since(l.began), time.Since(began)}
		l.mu.Lock()
		l.done = append(l.done, w)
		l.mu.Unlock()
	}
}

// draw returns a key of the partition that is being split, and its token.
func (l *gapLoad) draw() (k int32, place uint64) {
	for in := *l.aim.Load(); ; {
		k = rand.Int32()
		place = token.Hash(binary.BigEndian.AppendUint32(nil, uint32(k))).Position()
		if in(place) {
			return k, place
		}
	}
}

// pause returns the longest time without a completed write in a token range, and the longest duration of a write that
// completed in a time window. The first result covers all gaps that overlap the window.
func (l *gapLoad) pause(in func(place uint64) bool, from, to time.Duration) (gap, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var at []time.Duration
	for _, w := range l.done {
		if in(w.place) && w.at >= from && w.at <= to {
			at = append(at, w.at)
			longest = max(longest, w.took)
		}
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		gap = max(gap, at[i]-at[i-1])
	}
	return gap, longest
}

// TestSplitGap measures the longest time during a split in which no write to the new half completes. It also measures
// the longest duration of a write to the new half. For comparison, it measures both for the same tokens just before
// the split. Clients write to a cluster of four nodes as fast as possible, or at the rate -gap-rate. The test fails if
// a write fails.
func TestSplitGap(t *testing.T) {
	if *gapRounds == 0 {
		t.Skip("measurement: needs -gap ROUNDS")
	}
	f := startFleet(t, 4, "")
	f.settle()
	f.nodes[0].do("CREATE KEYSPACE gap WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	var gaps, before, slow, slowBefore []time.Duration
	for round := range *gapRounds {
		table := fmt.Sprintf("gap.t%d", round)
		f.nodes[0].do("CREATE TABLE " + table + " (k int PRIMARY KEY, v int)")
		l := &gapLoad{t: t, began: time.Now()}
		everywhere := func(uint64) bool { return true }
		l.aim.Store(&everywhere)
		for i := range gapWriters {
			l.wg.Go(func() { l.write(i, f.nodes[i%len(f.nodes)], table) })
		}
		for range 4 {
			for _, p := range f.nodes[0].partitionsOf(table) {
				g, s, gb, sb := l.splitOnce(f, table, p)
				gaps, slow = append(gaps, g), append(slow, s)
				before, slowBefore = append(before, gb), append(slowBefore, sb)
			}
		}
		l.stop.Store(true)
		l.wg.Wait()
	}
	for _, x := range []struct {
		what string
		list []time.Duration
	}{
		{"write gap of the right half", gaps}, {"the same places before", before},
		{"longest write of the right half", slow}, {"the same places before", slowBefore},
	} {
		slices.Sort(x.list)
		n := len(x.list)
		t.Logf("%-32s p50 %8v  p90 %8v  p99 %8v  max %8v  of %d splits", x.what, x.list[n/2].Round(10*time.Microsecond),
			x.list[n*9/10].Round(10*time.Microsecond), x.list[n*99/100].Round(10*time.Microsecond),
			x.list[n-1].Round(10*time.Microsecond), n)
	}
}

// splitOnce splits a partition and measures the new half during and before the split.
func (l *gapLoad) splitOnce(f *fleet, table string, p admin.PartitionStatus) (gap, slow, before,
	slowBefore time.Duration) {
	const window = 400 * time.Millisecond
	whole := inSpan(l.t, p.Span)
	l.aim.Store(&whole)
	aimed := time.Since(l.began)
	f.until("writes complete", eventually.Limit, func() string {
		if now := time.Since(l.began); now < aimed+2*window {
			return "not long enough"
		} else if g, _ := l.pause(whole, now-window, now); g == 0 {
			return "none yet"
		}
		return ""
	})
	known := map[uint64]bool{}
	for _, q := range f.nodes[0].partitionsOf(table) {
		known[q.ID] = true
	}
	ordered := time.Since(l.began)
	f.nodes[0].split(table, p.ID, "&wait=true")
	done := time.Since(l.began)
	f.until("all is calm", eventually.Limit, func() string {
		if time.Since(l.began) < done+window {
			return "not yet"
		}
		return ""
	})
	var span string
	for _, q := range f.nodes[0].partitionsOf(table) {
		if !known[q.ID] {
			span = q.Span
		}
	}
	in := inSpan(l.t, span)
	gap, slow = l.pause(in, ordered, done+window)
	before, slowBefore = l.pause(in, ordered-(done+window-ordered), ordered)
	return gap, slow, before, slowBefore
}

// inSpan parses a token range in the format of /status.
func inSpan(t *testing.T, text string) func(place uint64) bool {
	t.Helper()
	lo, hi, ok := strings.Cut(strings.Trim(text, "[)"), ", ")
	var from, to int64
	_, err := fmt.Sscan(lo, &from)
	if _, err2 := fmt.Sscan(hi, &to); err2 != nil {
		to = int64(token.Max)
	}
	if !ok || err != nil {
		t.Fatalf("%q is not a token range", text)
	}
	return func(place uint64) bool {
		at := int64(token.AtPosition(place))
		return at >= from && (at < to || to == int64(token.Max))
	}
}
