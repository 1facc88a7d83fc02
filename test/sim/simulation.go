// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/write"
	"github.com/ilion-db/ilion/test/sim/world"
)

// Scenario says what to simulate. The zero value but for Seed is the usual run.
type Scenario struct {
	Seed uint64
	// Length of the part with faults, in virtual time; 20 s if 0. A quiet part follows.
	Length time.Duration
	// Wait lets the file systems' background work end before a crash: synctest.Wait.
	Wait func()
	// Bugs are planted.
	Bugs Bugs
	// With is what happens beside the usual.
	With Hardships
	// Print hears one line for each fault and each acknowledgement; nil for none.
	Print func(line string)
}

// Hardships are faults and workloads that a run may do without. Usual has those that the product stands.
type Hardships struct {
	// Batches are logged batches over partitions, on keys that have conditions.
	Batches bool
	// Mixed has clients stamp keys that have conditions.
	Mixed bool
	// Jumps are of wall clocks, Suspends of whole machines, LongPauses take up to 14 s.
	Jumps, Suspends, LongPauses bool
	// Lost and RolledBack are directories: of rows, of the log, of both.
	Lost, RolledBack bool
	// Schema changes are of tables with indexes, which are written to, searched and truncated meanwhile.
	Schema bool
	// Refusals are connections that are refused though the process lives.
	Refusals bool
	// Rough connections break within a frame, and flip bits.
	Rough bool
	// Splits are of any partition of a user's table, at a key that clients use or anywhere.
	Splits bool
	// Merges are of any neighbours.
	Merges bool
	// Growth has partitions split and merge by themselves, by their size and load.
	Growth bool
	// Strikes are faults just when a split, a merge or a move has come to another step.
	Strikes bool
	// Presses are writes to partitions that are being merged, by nodes whose clocks differ and that hear nothing.
	Presses bool
	// Throughput has clients ask for all that a table's throughput gives, which changes, and makes partitions.
	Throughput bool
	// Transactions are of several rows of a logical partition.
	Transactions bool
	// Feeds are those of CQL tables with cdc = true, which are written to by statements of all kinds.
	Feeds bool
	// Stragglers are requests that are carried out long after they were repeated.
	Stragglers bool
	// Containers are of items, one by one, in batches and in stored procedures.
	Containers bool
	// Views are of a table that is written to with statements of every kind.
	Views bool
}

// Usual is what every seed has.
var Usual = Hardships{Batches: true, Schema: true, Lost: true, RolledBack: true, Refusals: true, Jumps: true,
	Rough:    true,
	Suspends: true, LongPauses: true, Mixed: true, Splits: true, Merges: true, Growth: true, Strikes: true,
	Presses: true}

// Report is what a run came to.
type Report struct {
	Scenario Scenario
	Trace    uint64
	Duration time.Duration
	Counts   Counts
	// Failures are the violations found; empty for a good run.
	Failures []string
	// Unchecked are the keys whose history took porcupine too long.
	Unchecked int
}

// Counts of what happened.
type Counts struct {
	world.Faults
	Events, Acked, Unknown, IndexReads int
	Transfers, Wipes                   int
	Snapshots, Truncations, Moves      int
	Quiesced, Leaders                  int
	Compared, Updates, Sweeps, Asked   int
	Batches, Replayed, Scans           int
	// Departures are orderly ends; Skewed counts how often a node found its own clock wrong, or right again.
	Departures, Skewed int
	// RefusedStarts are those on directories that must not be used.
	RefusedStarts int
	// Changes of the schema were answered, Built indexes are complete, Finds went by one; Stale statements were planned
	// anew.
	Changes, Built, Finds, Stale int
	// Repeats are attempts beyond the first, Forwarded those at other nodes.
	Repeats, Forwarded int
	// Of HereAsked reads at ONE HereReads were served on the spot, FollowerReads of them by replicas that did not lead.
	// Told are answers to followers that serve linearizable reads.
	HereAsked, HereReads, FollowerReads, Told int
	// Splits were ordered, Divided are those that the map has in the end, RecalledSplits were taken back.
	Splits, Divided, RecalledSplits int
	// Merges were ordered, Merged are those that were carried out, Recalled those that were taken back.
	Merges, Merged, Recalled int
	// SizeSplits, LoadSplits, KeySplits and AutoMerges were ordered by the partitions' leaders.
	SizeSplits, LoadSplits, KeySplits, AutoMerges int
	// Struck are the crashes of nodes by the step at which one of their partitions was. ChangedAmid are changes of the
	// schema and truncations that were asked for at one.
	Struck      Steps
	Presses     int
	Halfway     Halfway
	ChangedAmid int
	// Spent are the request units that a table with a throughput gave, Throttled the requests that it refused. Provided
	// are the splits that its throughput asked for.
	Spent, Throttled, Provided int
	// Transactions were answered.
	Transactions int
	// Items are requests for items that were answered; of them ItemBatches and Procedures have changed or seen
	// something, and Thrown are procedures that threw.
	Items, ItemBatches, Procedures, Thrown int
	// Triggered are operations with triggers, Repelled those of them that were refused, Cleared deletions of all items
	// of a key. Expired are items with a time to live that were seen to be gone.
	Triggered, Repelled, Cleared, Expired int
	// ChangePages are pages of the change feed, Rereads those that a reader forgot, FeedSplits readers that became two;
	// Searches are pages of queries by the index, IndexHits what it found, ItemSweeps walks over its entries.
	ChangePages, Rereads, FeedSplits, Searches, IndexHits, ItemSweeps int
	// DedupeSweeps are dedupe records that were swept, Stragglers requests that were carried out late.
	DedupeSweeps, Stragglers int
	// FeedWrites are statements to tables with a feed that were answered, FeedPages pages of the feeds, FeedRereads
	// those that a reader forgot, FeedDivisions readers that became two, FeedSweeps rounds over what nobody can see.
	FeedWrites, FeedPages, FeedRereads, FeedDivisions, FeedSweeps int
	// BaseWrites are statements about the base of views that were carried out, ViewRows what the views had in the end.
	BaseWrites, ViewRows int
	// Discards are snapshots that arrived and were not needed, Unwanted those that did not have to arrive.
	Discards, Unwanted int
}

// Sum is how much went wrong.
func (c *Counts) Sum() int { return c.Faults.Sum() + c.Transfers + c.Wipes + c.Asked }

func (r *Report) String() string {
	return fmt.Sprintf(
		"seed %d: %v, trace %016x, %+v, unchecked %d, failures %v",
		r.Scenario.Seed,
		r.Duration,
		r.Trace,
		r.Counts,
		r.Unchecked,
		r.Failures,
	)
}

// Shape of the cluster.
const (
	nodeCount  = 5
	voterCount = 4
	healAfter  = 2500 * time.Millisecond
	// clientsAfter is for how long clients go on when all is well again; nothing slows them down then, so it is dear.
	clientsAfter = 1500 * time.Millisecond
	tick         = 50 * time.Millisecond
	elections    = 20
)

// simulation is one run.
type simulation struct {
	*world.World
	plan   Scenario
	nodes  []*node
	counts Counts
	hist   history
	// finished is set when clients end.
	finished bool
	// hot is a key that clients prefer until then, for what is amiss with it would go unseen: it is led by a node that
	// refuses connections.
	hot     string
	refused *node
	until   time.Duration
	// hashes of groups at applied indexes, as first seen.
	hashes map[stateAt]uint64
	// applied are the writes that have an id, with their places in the logs.
	applied map[written]place
	// born is the map as it was in the beginning.
	born     *topology.Snapshot
	batches  *write.BatchLog
	records  []command.Record
	grow     grow
	spending spending
	strikes  strikes
	// halfway are the crashes within a step until now.
	halfway int
	// pressed are the partitions whose merges are or were pressed.
	pressed map[spanAt]bool
	items   itemsRun
	feeds   feedRun
}

type stateAt struct{ partition, applied, epoch, frozen uint64 }

// Run simulates one plan.
func Run(p Scenario) *Report {
	if p.Length == 0 {
		p.Length = 20 * time.Second
	}
	w := &simulation{World: world.New(p.Seed, nodeCount), plan: p, hashes: map[stateAt]uint64{},
		applied: map[written]place{}, pressed: map[spanAt]bool{},
		items: itemsRun{etags: map[itemVersion]string{}, versions: map[itemAt][]loggedItem{}}}
	w.batches = write.NewBatchLog(catalog.New(schema.New(), func() catalog.NodeInfo {
		return catalog.NodeInfo{}
	}).Snapshot())
	w.Wait, w.Print = p.Wait, p.Print
	if p.With.Rough {
		w.Net.Rough, w.Net.Requests = world.Usual, world.Requests
	}
	w.beginGrowth()
	w.begin()
	w.beginSpending()
	w.startChaos()
	if p.With.Splits {
		w.After(3*time.Second, w.splitSomething)
	}
	if p.With.Merges {
		w.After(4*time.Second, w.mergeSomething)
	}
	// After the faults everything heals; clients go on for a while, then every key is read once more.
	w.After(p.Length, w.heal)
	w.After(p.Length+4*time.Second, w.wrongClock)
	w.After(p.Length+4*time.Second, w.checkDamage)
	w.After(p.Length+clientsAfter, func() { w.finished = true })
	w.After(p.Length+17*time.Second, w.lastReads)
	if p.With.Transactions {
		w.After(p.Length+17*time.Second, w.lastTransactedReads)
	}
	if p.With.Containers {
		w.beginItemReads()
		w.After(p.Length+17*time.Second, w.lastItemReads)
	}
	if p.With.Feeds {
		w.beginFollowing()
		w.After(p.Length+17*time.Second, w.lastFeeds)
	}
	if p.With.Views {
		w.After(p.Length+17*time.Second, w.lastViewReads)
	}
	end := p.Length + 20*time.Second
	for w.World.Run(end); len(w.Failures) == 0 && !w.atRest() && end < p.Length+30*time.Second; w.World.Run(end) {
		end += 100 * time.Millisecond // an entry is on its way: a change of the records, or a new leader's first
	}
	r := &Report{Scenario: p, Duration: w.Now}
	if len(w.Failures) == 0 {
		w.checkConverged()
		r.Unchecked = w.checkHistories() + w.checkTransactions() + w.checkItems()
		w.checkFeeds()
	}
	for _, n := range w.nodes {
		w.counts.Discards += n.Discards
		w.counts.Unwanted += n.Unwanted
		n.close()
	}
	w.counts.Events, w.counts.Faults = w.Events, w.World.Faults
	r.Trace, r.Counts, r.Failures = w.Trace, w.counts, w.Failures
	return r
}

// begin makes the nodes and the first map.
func (w *simulation) begin() {
	for _, m := range w.Machines {
		w.nodes = append(w.nodes, newNode(w, m))
	}
	if err := w.firstMap(); err != nil {
		w.Fail("first map: %v", err)
		return
	}
	for _, n := range w.nodes {
		n.start()
	}
}

// firstMap cuts the tables: most replica sets have four voters, one of them has a single one, and grows.
func (w *simulation) firstMap() (err error) {
	at := w.placesFrom
	m := topology.New().WithLevel(feature.Known.Newest)
	if m, err = m.AddMeta(at(0, voterCount)); err == nil {
		pieces := topology.Equal(2, at(1, voterCount))
		pieces[1].Places = at(3, voterCount)
		m, err = m.CutTable(rowsTable, pieces)
	}
	if err == nil {
		m, err = m.AddTable(wipedTable, 1, at(2, voterCount))
	}
	if err == nil {
		m, err = m.AddTable(smallTable, 1, at(4, 1))
	}
	if err == nil {
		m, err = m.CutTable(w.batches.Table(), topology.Equal(2, at(2, voterCount)))
	}
	if err != nil {
		return err
	}
	w.born = m
	return w.firstRecords()
}

// placesFrom are so many nodes, from one of them on.
func (w *simulation) placesFrom(first, n int) []topology.Place {
	p := topology.Place{Region: region}
	for i := range n {
		p.Nodes = append(p.Nodes, w.nodes[(first+i)%nodeCount].self())
	}
	return []topology.Place{p}
}

// pieces are two halves of a table.
func (w *simulation) pieces(i int) []topology.Piece {
	out := topology.Equal(2, w.placesFrom(i, voterCount))
	out[1].Places = w.placesFrom(i+2, voterCount)
	return out
}
