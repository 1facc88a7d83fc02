// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// Scenario describes a simulation. The zero value with a Seed is the usual run.
type Scenario struct {
	Seed uint64
	// Length is the duration of the phase with faults in virtual time. The value 0 means 20 s. A calm phase follows
	// the phase with faults.
	Length time.Duration
	// Wait is synctest.Wait, which waits for the background work of the file systems before a crash.
	Wait func()
	// Bugs holds the planted bugs.
	Bugs Bugs
	// With holds the faults and workloads of the run.
	With Hardships
	// Print receives one line for each fault and each acknowledgement. Print may be nil.
	Print func(line string)
}

// Hardships selects the optional faults and workloads. Usual holds the default selection.
type Hardships struct {
	// Batches enables logged batches across partitions, including keys that have conditional writes.
	Batches bool
	// Mixed lets clients assign timestamps to keys that have conditional writes.
	Mixed bool
	// Jumps enables jumps of wall clocks, Suspends suspends whole machines, and LongPauses enables pauses of up to 14
	// s.
	Jumps, Suspends, LongPauses bool
	// Lost and RolledBack enable lost and outdated data directories. The fault affects the rows, the log, or both.
	Lost, RolledBack bool
	// Schema enables changes of tables with indexes while clients write, search, and truncate these tables.
	Schema bool
	// Refusals enables refused connections to processes that are up.
	Refusals bool
	// Rough enables connections that break within a frame and that flip bits.
	Rough bool
	// Splits enables splits of the partitions of user tables, at a key that clients use or at any token.
	Splits bool
	// Merges enables merges of adjacent partitions.
	Merges bool
	// Growth enables automatic splits and merges by size and load.
	Growth bool
	// StepFaults enables faults at the steps of splits, merges, and moves.
	StepFaults bool
	// MergeStress enables writes to merging partitions. The writing nodes have different clocks and do not receive
	// responses.
	MergeStress bool
	// Throughput enables clients that use the whole provisioned throughput of a table. The throughput changes and
	// determines the number of partitions.
	Throughput bool
	// Transactions enables transactions of several rows of a logical partition.
	Transactions bool
	// Feeds enables readers of CQL tables with cdc = true, and clients that write to them with all kinds of
	// statements.
	Feeds bool
	// Stragglers enables requests that are executed long after the client has repeated them.
	Stragglers bool
	// Containers enables single item requests, batches, and stored procedures.
	Containers bool
	// Views enables materialized views of a table, and clients that write to the table with all kinds of statements.
	Views bool
	// Regions puts one node into a distant region without replicas. The node sends its requests to the nodes of the
	// home region.
	Regions bool
}

// Usual holds the faults and workloads that every seed uses.
var Usual = Hardships{Batches: true, Schema: true, Lost: true, RolledBack: true, Refusals: true, Jumps: true,
	Rough:    true,
	Suspends: true, LongPauses: true, Mixed: true, Splits: true, Merges: true, Growth: true, StepFaults: true,
	MergeStress: true}

// Report is the result of a run.
type Report struct {
	Scenario Scenario
	Trace    uint64
	Duration time.Duration
	Counts   Counts
	// Failures holds the violations found. Failures is empty for a successful run.
	Failures []string
	// Unchecked is the number of keys whose histories porcupine could not check in time.
	Unchecked int
}

// Counts holds the numbers of events in a run.
type Counts struct {
	simenv.Faults
	Events, Acked, Unknown, IndexReads int
	Transfers, Wipes                   int
	Snapshots, Truncations, Moves      int
	Quiesced, Leaders                  int
	Compared, Updates, Sweeps, Asked   int
	Batches, Replayed, Scans           int
	// Departures counts orderly shutdowns. Skewed counts the changes of the nodes' verdicts about their own clocks.
	Departures, Skewed int
	// RefusedStarts counts rejected starts on directories that must not be used.
	RefusedStarts int
	// Changes counts schema changes with a response. Built counts completed indexes. Finds counts reads through an
	// index. Stale counts statements that were planned again.
	Changes, Built, Finds, Stale int
	// Repeats counts repeated attempts of requests. Forwarded counts attempts on other nodes.
	Repeats, Forwarded int
	// HereAsked counts the reads at ONE that clients sent to their node. HereReads counts the reads at ONE that the
	// client's node served. FollowerReads counts the reads that a follower served. IndexResponses counts responses to
	// followers that serve linearizable reads.
	HereAsked, HereReads, FollowerReads, IndexResponses int
	// Splits counts ordered splits. Divided counts the splits in the final map. CanceledSplits counts canceled splits.
	Splits, Divided, CanceledSplits int
	// Merges counts ordered merges, Merged counts completed merges, and CanceledMerges counts canceled merges.
	Merges, Merged, CanceledMerges int
	// SizeSplits, LoadSplits, KeySplits, and AutoMerges count the automatic changes that partition leaders ordered.
	SizeSplits, LoadSplits, KeySplits, AutoMerges int
	// StepCrashes counts crashes of nodes by the step of one of their partitions. ChangedAmid counts schema changes and
	// truncations that were requested at a step.
	StepCrashes    Steps
	MergeStress    int
	PartialCrashes PartialCrashes
	ChangedAmid    int
	// Spent is the number of request units that a table with provisioned throughput granted. Throttled counts rejected
	// requests. Provided counts the splits that the throughput required.
	Spent, Throttled, Provided int
	// Transactions counts transactions with a response.
	Transactions int
	// Items counts item requests with a response. ItemBatches and Procedures count the batches and procedures that
	// changed or read an item. Thrown counts procedures that threw an exception.
	Items, ItemBatches, Procedures, Thrown int
	// Triggered counts operations with triggers. Repelled counts rejected operations with triggers. Cleared counts
	// deletions of all items of a key. Expired counts items that clients have seen expire.
	Triggered, Repelled, Cleared, Expired int
	// ChangePages counts pages of the change feed, Rereads counts the pages that a reader discarded, and FeedSplits
	// counts the readers that divided. Searches counts pages of index queries, IndexHits counts the results of index
	// queries, and ItemSweeps counts the sweeps of index entries.
	ChangePages, Rereads, FeedSplits, Searches, IndexHits, ItemSweeps int
	// DedupeSweeps counts swept dedupe records. Stragglers counts requests that were executed late.
	DedupeSweeps, Stragglers int
	// FeedWrites counts statements on tables with a feed that received a response. FeedPages counts pages of the
	// feeds. FeedRereads counts pages that a reader discarded. FeedDivisions counts readers that divided. FeedSweeps
	// counts sweeps of invisible data.
	FeedWrites, FeedPages, FeedRereads, FeedDivisions, FeedSweeps int
	// BaseWrites counts executed statements on the base table of views. ViewRows counts the final rows of the views.
	BaseWrites, ViewRows int
	// Discards counts snapshots that arrived and were not needed. Unwanted counts snapshots that did not need to be
	// sent.
	Discards, Unwanted int
}

// Sum returns the total number of faults.
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

// These constants determine the size and the timing of the cluster.
const (
	nodeCount  = 5
	voterCount = 4
	healAfter  = 2500 * time.Millisecond
	// clientsAfter is the time during which clients continue after the faults have ended. Clients are fast after the
	// faults have ended, so long values make the simulation expensive.
	clientsAfter = 1500 * time.Millisecond
	tick         = 50 * time.Millisecond
	elections    = 20
)

// simulation holds the state of a run.
type simulation struct {
	*simenv.Environment
	plan   Scenario
	nodes  []*node
	counts Counts
	hist   clientHistory
	// finished is set when the clients end.
	finished bool
	// hot is a key that clients prefer until the given time. The leader of the key refuses connections. Clients notice
	// this only if they send enough requests.
	hot     string
	refused *node
	until   time.Duration
	// hashes holds the first observed hash of each group at each applied index.
	hashes map[stateAt]uint64
	// applied maps each write with an ID to its place in the logs.
	applied map[written]place
	// born is the initial partition map.
	born       *topology.Snapshot
	batches    *write.BatchLog
	records    []command.Record
	grow       grow
	spending   spending
	stepFaults stepFaults
	// partialCrashes is the number of crashes within a step so far.
	partialCrashes int
	// stressedMerges holds the merges for which mergeStress has started.
	stressedMerges map[spanAt]bool
	items          itemsRun
	feeds          feedRun
}

type stateAt struct{ partition, applied, epoch, frozen uint64 }

// Run simulates a scenario.
func Run(p Scenario) *Report {
	if p.Length == 0 {
		p.Length = 20 * time.Second
	}
	w := &simulation{Environment: simenv.New(p.Seed, nodeCount), plan: p, hashes: map[stateAt]uint64{},
		applied: map[written]place{}, stressedMerges: map[spanAt]bool{},
		items: itemsRun{etags: map[itemVersion]string{}, versions: map[itemAt][]loggedItem{}}}
	w.batches = write.NewBatchLog(catalog.New(schema.New(), func() catalog.NodeInfo {
		return catalog.NodeInfo{}
	}))
	w.Wait, w.Print = p.Wait, p.Print
	if p.With.Rough {
		w.Net.Rough, w.Net.Requests = simenv.Usual, simenv.Requests
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
	// All faults end after the phase with faults. Clients continue for a while. Then every key is read once more.
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
	w.Environment.Run(end)
	for len(w.Failures) == 0 && !w.atRest() && end < p.Length+30*time.Second {
		// At this time, a metadata change or the first entry of a new leader is in flight.
		end += 100 * time.Millisecond
		w.Environment.Run(end)
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
	w.counts.Events, w.counts.Faults = w.Events, w.Environment.Faults
	r.Trace, r.Counts, r.Failures = w.Trace, w.counts, w.Failures
	return r
}

// begin creates the nodes and the first partition map.
func (w *simulation) begin() {
	for _, m := range w.Machines {
		w.nodes = append(w.nodes, newNode(w, m))
	}
	w.beginRegions()
	if err := w.firstMap(); err != nil {
		w.Fail("first map: %v", err)
		return
	}
	for _, n := range w.nodes {
		n.start()
	}
}

// firstMap divides the tables into partitions. Most replica sets have four voters, but one replica set starts with a
// single voter.
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

// placesFrom returns n nodes, starting at first.
func (w *simulation) placesFrom(first, n int) []topology.Place {
	p := topology.Place{Region: region}
	for i := range n {
		p.Nodes = append(p.Nodes, w.nodes[(first+i)%w.homeNodes()].self())
	}
	return []topology.Place{p}
}

// pieces returns the two halves of a table.
func (w *simulation) pieces(i int) []topology.Piece {
	out := topology.Equal(2, w.placesFrom(i, voterCount))
	out[1].Places = w.placesFrom(i+2, voterCount)
	return out
}
