// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// The provisioned throughput of the table alternates between lowThroughput and highThroughput, which determine the
// number of partitions. The share of a partition is at least 3,000 RU/s, so a leader saves unused throughput for up to
// spareFor.
const (
	spentKeyspace  = "spent"
	spentTable     = "t"
	lowThroughput  = 12_000
	highThroughput = 24_000
	leastShare     = 3_000
	// spenders is the number of clients on each node that use the throughput. One client reads, and the other clients
	// write writeRows rows per request at 5 request units per row.
	spenders  = 4
	writeRows = 20
	// fatKeys is the number of keys whose rows cost 6 request units to read.
	fatKeys  = 4
	fatBytes = 60 << 10
	// ringSlices is the number of ring slices. The checks compare the granted units for each slice and for each range
	// of adjacent slices.
	ringSlices = 8
	checkEvery = 10 * time.Millisecond
	// spareFor is the maximum time for which a leader saves unused throughput. beginFor is the time for which a new
	// leader may assume that throughput was unused.
	spareFor = 200 * time.Millisecond
	beginFor = time.Second / 2
)

// dearest is the maximum number of request units by which one request may exceed the balance of a partition.
const dearest = 5 * writeRows * float64(ru.Unit)

// spending records the use of the provisioned throughput in a run.
type spending struct {
	table uint32
	// given holds the units charged since the last check, by slice of the ring.
	given [ringSlices]float64
	// terms holds the partitions that got a new leader since the last check.
	terms []topology.PartitionID
	// stretches holds the difference between granted and due units for all ranges of slices. shares holds the shares
	// at the last check.
	stretches [ringSlices][ringSlices]excess
	shares    []share
	busy      bool
	dice      *rand.Rand
}

// share is the limit of a partition, in fractions of ru.Unit per second, with the slices that its range intersects.
type share struct {
	id          topology.PartitionID
	first, last int
	units       float64
}

// excess is the maximum difference between granted and due units in all windows that end now. spare is the allowed
// difference.
type excess struct{ above, spare float64 }

// firstSpending creates the table with the partitions that its throughput requires.
func (w *simulation) firstSpending(s *meta.State) (*meta.State, error) {
	replication := []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}
	out := *s
	out.Schema = catalog.WithSystem(out.Schema)
	text, number := &schema.TypeSpec{Kind: cqltype.Text}, &schema.TypeSpec{Kind: cqltype.Bigint}
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Name: spentKeyspace,
			Properties: []schema.Property{{Name: "replication", IsMap: true, Map: replication}}},
		&schema.CreateTable{ID: schema.UUID{0x59}, Keyspace: spentKeyspace, Name: spentTable,
			PartitionKey: []string{"k"}, Clustering: []string{"c"}, Properties: throughputs(lowThroughput),
			Columns: []schema.ColumnSpec{{Name: "k", Type: text}, {Name: "c", Type: text}, {Name: "v", Type: number}}},
	} {
		var err error
		if out.Schema, _, err = schema.Apply(out.Schema, c); err != nil {
			return nil, err
		}
	}
	t := out.Schema.Table(spentKeyspace, spentTable)
	w.spending = spending{table: t.ID, dice: w.growDice(1 << 41)}
	n := throughput.InitialPartitions(&out, t)
	m, err := out.Topology.CutTable(t.ID, topology.Equal(n, w.placesFrom(1, voterCount)))
	out.Topology = m
	return &out, err
}

func throughputs(units int) []schema.Property {
	return []schema.Property{{Name: "throughput", Value: strconv.Itoa(units)}}
}

// spends reports whether the table has provisioned throughput.
func (w *simulation) spends(table uint32) bool { return table != 0 && table == w.spending.table }

// provide sets the throughput limits of the node's partitions in the same way as package node.
func (n *node) provide(old, s *meta.State) {
	t := throughput.DividePerPartition(s)
	if n.w.plan.Bugs.LateBound && old.Version == 0 {
		return
	}
	if n.w.plan.Bugs.Undivided {
		for id := range t.PerSecond {
			t.PerSecond[id] = lowThroughput
		}
	}
	n.parts.SetThroughputs(t)
}

// startSpending starts the clients that use the throughput. It also starts changes of the throughput and splits of its
// partitions.
func (n *node) startSpending(ctx context.Context) {
	w := n.w
	if !w.plan.With.Throughput {
		return
	}
	provider := &autosplit.ThroughputSplitter{Options: &autosplit.Options{Metadata: n.keeper, Member: n.member,
		Log: n.log(), Sched: n.Scheduler()}}
	n.Scheduler().Go(func() { provider.Run(ctx) })
	for i := range spenders {
		n.Spawn(func(t *simenv.Task) {
			for t.Sleep(w.spendingPause(20*time.Millisecond)) && !w.finished {
				if n.state().Version > 0 && (w.spending.busy || w.spending.dice.IntN(20) == 0) {
					n.spend(t, i > 0)
				}
			}
		})
	}
	n.Spawn(func(t *simenv.Task) {
		for t.Sleep(time.Second+w.spendingPause(6*time.Second)) && !w.finished && !w.Calm {
			switch {
			case n.state().Version == 0:
			case w.spending.dice.IntN(2) == 0:
				n.alterThroughput(t)
			default:
				n.splitSpent()
			}
		}
	})
}

// spendingPause uses a separate random source, so that its draws do not change the rest of a run.
func (w *simulation) spendingPause(most time.Duration) time.Duration {
	return 1 + time.Duration(w.spending.dice.Int64N(int64(most)))
}

// alterThroughput changes the throughput if the resulting shares are large enough.
func (n *node) alterThroughput(t *simenv.Task) {
	w := n.w
	state := n.state()
	units := lowThroughput
	if table := state.Schema.TableByID(w.spending.table); table != nil &&
		state.Schema.Keyspace(spentKeyspace).Throughput(table).Units == lowThroughput {
		units = highThroughput
	}
	for _, p := range state.Topology.Partitions(w.spending.table) {
		if units == lowThroughput && (len(state.Topology.Partitions(w.spending.table)) > units/leastShare ||
			p.Split != nil) {
			return
		}
	}
	c := &schema.AlterTable{Keyspace: spentKeyspace, Name: spentTable, Op: schema.SetOptions,
		Properties: throughputs(units)}
	c.At = n.Wall().UnixMicro()
	for i := range c.Version {
		c.Version[i] = byte(w.spending.dice.Uint32())
	}
	_, _, err := n.changer.Apply(context.Background(), c, "")
	if !t.Dead() {
		w.Note("node %d: throughput %d: %v", n.ID, units, err)
	}
}

// splitSpent splits a partition in its middle if the shares of the halves are large enough.
func (n *node) splitSpent() {
	w := n.w
	err := n.update(func(s *meta.State) (*meta.State, error) {
		ps := s.Topology.Partitions(w.spending.table)
		units := s.Schema.Keyspace(spentKeyspace).Throughput(s.Schema.TableByID(w.spending.table)).Units
		if units/int64(len(ps)) < 2*leastShare || slices.ContainsFunc(ps, func(p *topology.Partition) bool {
			return p.Split != nil || p.Merge != nil
		}) {
			return s, nil
		}
		p := ps[w.spending.dice.IntN(len(ps))]
		tokens := p.Span.Tokens()
		at := topology.Position{Ring: tokens.Begin + (tokens.Limit-tokens.Begin-1)/2}
		order := split.Request{Table: p.Table, Partition: p.ID, At: at, SkipCooldown: true}
		w.Note("node %d: split of partition %d, which spends", n.ID, p.ID)
		return order.Apply(s, n.Wall())
	})
	if err != nil {
		w.Note("node %d: not split: %v", n.ID, err)
	}
}

// spend makes one request, which writes several rows or reads many bytes.
func (n *node) spend(t *simenv.Task, writes bool) {
	w, dice := n.w, n.w.spending.dice
	key := fmt.Sprint("f", dice.IntN(fatKeys))
	if writes {
		key = fmt.Sprint("u", dice.IntN(64))
	}
	tok := token.Hash([]byte(key))
	slice := int(tok.Position() / (1 << 64 / ringSlices))
	var err error
	var cost ru.Units
	if writes {
		cost, err = n.spendWrite(t, key, writeRows, 8)
	} else {
		v := &spender{}
		level := []dberr.Consistency{dberr.One, dberr.One, dberr.Quorum}[dice.IntN(3)]
		err = n.coord.Read(context.Background(), &command.Read{Table: w.spending.table, Key: []byte(key), Token: tok,
			Level: level, Now: n.Wall().Unix()}, v)
		if cost = v.cost; err == nil && v.rows == 0 && !t.Dead() {
			_, err = n.spendWrite(t, key, 1, fatBytes)
			cost = v.cost + ru.Row(0)
		}
	}
	if t.Dead() {
		return
	}
	var overloaded *dberr.Overloaded
	switch {
	case err == nil:
		w.spending.given[slice] += float64(cost)
		w.counts.Spent += int(cost / ru.Unit)
	case errors.As(err, &overloaded):
		w.counts.Throttled++
		t.Sleep(max(overloaded.RetryAfter, 10*time.Millisecond))
	default:
		t.Sleep(100 * time.Millisecond)
	}
}

// spendWrite writes rows of one logical partition.
func (n *node) spendWrite(t *simenv.Task, key string, rows, bytes int) (ru.Units, error) {
	m := command.Mutation{Table: n.w.spending.table, Token: token.Hash([]byte(key)), Key: []byte(key)}
	v := n.cat.Snapshot().TableByID(m.Table).Column("v").ID
	for i := range rows {
		var b row.Builder
		b.Reset(row.Unstamped)
		b.Cell(v, nil, make([]byte, bytes), 0, row.NoExpiry)
		m.Ops = append(m.Ops, command.Op{Clustering: []byte{byte(i)}, Operand: b.Append(nil)})
	}
	responded, done := false, &spender{}
	var end error
	done.end = func(err error) { responded, end = true, err }
	n.coord.Write(context.Background(), []command.Mutation{m}, coordinator.WriteOptions{Level: dberr.Quorum}, done)
	if err := t.Wait(func() bool { return responded }, responseTimeout); err != nil {
		return 0, err
	}
	return done.cost, end
}

// spender is the visitor or the completion of a request. It records the cost of the request.
type spender struct {
	cost ru.Units
	rows int
	end  func(err error)
}

// Partition implements command.Visitor.
func (s *spender) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

// Row implements command.Visitor.
func (s *spender) Row([]byte, *row.Row) (command.Step, error) {
	s.rows++
	return command.More, nil
}

// Charge implements ru.Charged.
func (s *spender) Charge(u ru.Units) { s.cost += u }

// Done implements command.Completion.
func (s *spender) Done(o command.Outcome) {
	s.cost += ru.Units(o.Charge)
	s.end(o.Err)
}

// sharesNow returns the limits of the partitions in the newest map. Each limit is the highest limit known to a node
// with a replica.
func (w *simulation) sharesNow() (out []share) {
	m := w.newest().Topology
	for _, p := range m.Partitions(w.spending.table) {
		x := share{id: p.ID, first: int(p.Span.Begin.Ring / (1 << 64 / ringSlices)), last: ringSlices - 1}
		if !p.Span.Limit.IsZero() {
			x.last = int((p.Span.Limit.Ring - 1) / (1 << 64 / ringSlices))
		}
		for _, n := range w.nodes {
			if n.parts != nil && n.keeper != nil && n.parts.Replica(p.ID) != nil {
				x.units = max(x.units, w.shareBy(n.state(), p, m))
			}
		}
		out = append(out, x)
	}
	return out
}

// shareBy returns the limit of a partition according to a metadata state, which may be outdated. The limit is an equal
// share, or half an equal share if the partition has split since that state.
func (w *simulation) shareBy(s *meta.State, p *topology.Partition, newest *topology.Snapshot) float64 {
	ps := s.Topology.Partitions(w.spending.table)
	if len(ps) == 0 {
		return 0
	}
	units := s.Schema.Keyspace(spentKeyspace).Throughput(s.Schema.TableByID(w.spending.table)).Units
	each := min(float64(units)/float64(len(ps)), 10_000) * float64(ru.Unit)
	for _, known := range ps {
		cut := known.Split
		if cut != nil && (cut.Child == p.ID || known.ID == p.ID && newest.Partition(cut.Child) != nil) {
			return each / 2
		}
	}
	return each
}

// watchSpending checks repeatedly that no window was granted more than the due units plus an allowance. The allowance
// covers the units that leaders may grant immediately and a debt for each request in flight.
func (w *simulation) watchSpending() {
	if w.finished {
		return
	}
	w.After(checkEvery, w.watchSpending)
	x := &w.spending
	shares := w.sharesNow()
	if len(x.shares) == 0 {
		x.shares = shares
	}
	for first := range ringSlices {
		given := 0.0
		for last := first; last < ringSlices; last++ {
			given += x.given[last]
			due, spare := w.due(first, last, shares)
			e := &x.stretches[first][last]
			e.above = max(e.above+given-due, 0)
			if e.spare = max(e.spare, spare); e.above == 0 {
				e.spare = spare
			}
			if e.above > e.spare {
				w.Fail("ring slices %d to %d were granted %.0f request units more than due, the allowance is %.0f: %v",
					first, last, e.above/float64(ru.Unit), e.spare/float64(ru.Unit), shares)
			}
		}
	}
	x.given, x.terms, x.shares = [ringSlices]float64{}, x.terms[:0], shares
}

// clockSlack is the maximum rate of a fast clock.
const clockSlack = 1.05

// due returns the units that slices may receive between two checks, including the initial balance of new leaders.
// spare is the additional amount that slices may receive at any time.
func (w *simulation) due(first, last int, now []share) (due, spare float64) {
	x := &w.spending
	debts := (spenders - 1) * nodeCount * dearest
	for _, list := range [][]share{x.shares, now} {
		for _, s := range list {
			if s.last < first || s.first > last {
				continue
			}
			// A share that is in both lists counts once. Where the lists differ, the larger share counts.
			due += s.units * clockSlack * checkEvery.Seconds() / 2
			spare += s.units * spareFor.Seconds() / 2
			for _, id := range x.terms {
				if id == s.id {
					due += (s.units*beginFor.Seconds() + debts) / 2
				}
			}
		}
	}
	// Debts count twice, because requests may be in flight at the beginning and at the end of the window.
	return due, spare + 2*debts
}

// newTerm records that a partition has a new leader.
func (w *simulation) newTerm(id topology.PartitionID) {
	if w.plan.With.Throughput {
		w.spending.terms = append(w.spending.terms, id)
	}
}

// beginSpending starts the checks and the clients once the cluster exists.
func (w *simulation) beginSpending() {
	if w.plan.With.Throughput {
		w.After(checkEvery, w.watchSpending)
		w.After(time.Second, w.turnSpending)
	}
}

// turnSpending makes the clients alternate between a high and a low request rate.
func (w *simulation) turnSpending() {
	w.spending.busy = !w.spending.busy
	w.After(time.Second+w.spendingPause(5*time.Second), w.turnSpending)
}

// checkSpending checks at the end of a run that the number of partitions matches the throughput. It also checks that
// each partition has its share.
func (w *simulation) checkSpending() {
	if !w.plan.With.Throughput {
		return
	}
	s := w.newest()
	ps := s.Topology.Partitions(w.spending.table)
	units := s.Schema.Keyspace(spentKeyspace).Throughput(s.Schema.TableByID(w.spending.table)).Units
	if len(ps) < int((units+9_999)/10_000) {
		w.Fail("%d partitions at the end for %d request units per second", len(ps), units)
	}
	for _, p := range ps {
		var r *partition.Replica
		if leader := w.leaderOf(p.ID); leader != nil {
			r = leader.parts.Replica(p.ID)
		}
		if want := min(units/int64(len(ps)), 10_000); r != nil && r.Throughput().PerSecond() != want &&
			!w.plan.Bugs.Undivided {
			w.Fail("the final limit of partition %d is %d request units per second, want %d", p.ID, r.Throughput().PerSecond(), want)
		}
	}
	for _, e := range s.History {
		if e.Cause == topology.ByThroughput && !e.Abandoned {
			w.counts.Provided++
		}
	}
}
