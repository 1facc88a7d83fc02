// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"encoding/binary"
	"flag"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestExpiringWrites writes; 0 skips it")
	soakRate = flag.Int("soak.rate", 1_000_000, "expiring writes a minute")
)

// TestExpiringWrites checks that a node with default options keeps up with a million expiring writes a minute. The
// number of expired rows on disk must stay bounded, regardless of the duration of the test. The test logs the figures
// every ten seconds:
//
//	go test -tags integration ./internal/node -run TestExpiringWrites -soak 5m -v
func TestExpiringWrites(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("-soak says for how long")
	}
	const ttl, tick, burstMax = 30, 50 * time.Millisecond, 5000
	n := startTestNode(t, Options{Data: t.TempDir(), Commit: "periodic"})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE s.t (k bigint PRIMARY KEY, v text) WITH gc_grace_seconds = 0")
	table := n.catalog.Snapshot().Table("s", "t")
	column := table.Column("v").ID
	batches := write.BackfillTable{Coordinator: n.coordinator}
	value := make([]byte, 100)
	swept := n.store.Metrics().Swept
	written := map[int64]int{} // number of rows per second
	var total, expired int
	var worst int
	begun := time.Now()
	shown, forgotten := begun, begun.Unix()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for time.Since(begun) < *soakFor {
		<-ticks.C
		now := time.Now().Unix()
		due := int(time.Since(begun).Minutes()*float64(*soakRate)) - total // later ticks compensate for a late tick
		ms := make([]command.Mutation, min(due, burstMax))
		for i := range ms {
			key := binary.BigEndian.AppendUint64(nil, uint64(total+i))
			var b row.Builder
			b.Reset(row.Unstamped)
			b.Live(ttl, now+ttl)
			b.Cell(column, nil, value, ttl, now+ttl)
			ms[i] = command.Mutation{
				Table: table.ID, Token: token.Hash(key), Key: key, SchemaVersion: table.Revision,
				Ops: []command.Op{{Operand: b.Append(nil)}},
			}
		}
		if _, err := batches.Write(t.Context(), ms, dberr.One); err != nil {
			t.Fatal(err)
		}
		total += len(ms)
		written[now] += len(ms)
		for ; forgotten+ttl < now; forgotten++ {
			expired += written[forgotten]
			delete(written, forgotten)
		}
		m := n.store.Metrics()
		backlog := expired - int(m.Swept-swept)
		worst = max(worst, backlog)
		if time.Since(shown) >= 10*time.Second {
			shown = time.Now()
			t.Logf("%3.0f s: %8d written, %8d expired, %7d of them still there, lag %d s, %4d MiB on disk",
				time.Since(begun).Seconds(), total, expired, backlog, m.SweepLag, m.DiskBytes>>20)
		}
	}
	rate := float64(total) / time.Since(begun).Minutes()
	t.Logf("%.0f writes a minute, at most %d expired rows still there", rate, worst)
	if rate < 0.95*float64(*soakRate) {
		t.Skipf("the machine is too busy: it took %.0f writes a minute of %d", rate, *soakRate)
	}
	// Expiry times are rounded up to 16 s, and the sweeper checks them every 10 s.
	if worst > *soakRate {
		t.Errorf("%d expired rows were still there, more than are written in a minute", worst)
	}
}
