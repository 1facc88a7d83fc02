// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// chunkRows is how many rows a build reads before it writes their entries.
	chunkRows = 2000
	// chunkRowBytes bounds the size in bytes of the rows of a chunk, and chunkEntryBytes the size of their entries. One
	// row at most exceeds them. mutationBytes bounds the entries of one mutation: the rows that a logical partition has
	// in a chunk are divided among several mutations.
	chunkRowBytes   = 16 << 20
	chunkEntryBytes = 4 << 20
	mutationBytes   = 256 << 10
	// chunkLooked is how many keys with nothing in them it looks at before it goes on with another command.
	chunkLooked = 100_000
	// awaitMax is how long CREATE INDEX waits, so that the index of a small table is ready when the statement returns.
	awaitMax = time.Second
	// retryPause is the pause after a failed attempt. Whether this node is to build can change without a sign, so it
	// also looks that often.
	retryPause = time.Second
	// publicationPause is the pause before a chunk is tried again because the table was being altered.
	publicationPause = 5 * time.Millisecond
	// yieldMax is how long a build gives way to clients, where the machine or the throughput of the table is short:
	// then it has a turn as one of them.
	yieldMax = time.Second
	// savePause is how often it is noted how far a build has come: so much of it may be done again.
	savePause = 2 * time.Second
	// pressedPause is the pause after which it looks whether the machine is still short.
	pressedPause = 20 * time.Millisecond
)

// Table is the data of all tables, wherever its partitions are.
type Table interface {
	// Read passes rows to a visitor, as coordinator.Coordinator.Read does. ErrAgain says that the same read may succeed
	// if it is tried again.
	Read(ctx context.Context, read *command.Read, v command.Visitor) error
	// Write returns when mutations are acknowledged at the level, each by itself. ErrAgain is as of Read. With a
	// *dberr.Overloaded those that are left were not written.
	Write(ctx context.Context, ms []command.Mutation, level dberr.Consistency) (left []command.Mutation, err error)
	// Require makes all partitions of a table refuse mutations that were planned for an older revision of it. When it
	// returns, those that were accepted before are applied.
	Require(ctx context.Context, table uint32, revision uint64) error
}

// ErrAgain says that what a Table was asked for was not done because the table was being altered or moved.
var ErrAgain = errors.New("the table is being changed")

// Entries returns the entries of a row in an index. Their values may be views over the row.
type Entries func(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([]command.Op, error)

// Options are the parts that a Builder works with. All but Pressed, Past and Sched are needed.
type Options struct {
	Records *meta.Keeper
	Table   Table
	Entries Entries
	// Schema is the schema by which statements are planned on this node now.
	Schema func() *schema.Schema
	// Mine reports whether this node is to build.
	Mine func() bool
	Log  *slog.Logger
	// Pressed reports whether this machine is asked for more than it does; nil: never.
	Pressed func() bool
	// Past is an instant, in seconds, that has passed by the clocks of most nodes: rows that have expired by then need
	// no entries. The wall clock of Sched if nil.
	Past func() int64
	// SavePause is how often it is noted how far a build has come, 2 s if 0.
	SavePause time.Duration
	// Change makes a change of the schema, by which indexes of vectors get lists; nil: none do. Listed reports whether
	// all nodes know them.
	Change func(ctx context.Context, c *schema.SetLists) error
	Listed func() bool
	// ListsPause is how often it is looked whether they need others, 20 s if 0; ListsRows from how many rows of a table
	// on they have any, 2,500 if 0.
	ListsPause time.Duration
	ListsRows  int64
	// Sched is what the builder tells time and waits by, nil outside simulations.
	Sched *sched.Scheduler
}

// Builder builds the indexes that are to be built. It is safe for concurrent use.
type Builder struct {
	Options
	wake chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and made anew by Look
	// built is the index under construction here, and at how far it has come.
	built uint32
	at    *meta.Build

	trained time.Time // by Run, when it looked for lists
}

// New returns a Builder; Run has it build.
func New(o Options) *Builder {
	if o.SavePause == 0 {
		o.SavePause = savePause
	}
	o.ListsPause, o.ListsRows = cmp.Or(o.ListsPause, listsPause), cmp.Or(o.ListsRows, listsRows)
	if o.Past == nil {
		o.Past = func() int64 { return o.Sched.Wall().Unix() }
	}
	return &Builder{Options: o, wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Building reports whether an index is not complete yet.
func (b *Builder) Building(ix *schema.Index) bool { return b.Records.State().Building[ix.ID] }

// Progress is how far an index in Building is built, in percent of the ring, by whichever node: as was noted last, or
// as is known where it is built by this one.
func (b *Builder) Progress(ix *schema.Index) int { return b.Of(ix).Percent() }

// Of is how far an index in Building is built, nil where nobody has begun, or noted it.
func (b *Builder) Of(ix *schema.Index) *meta.Build {
	b.mu.Lock()
	id, at := b.built, b.at
	b.mu.Unlock()
	if id == ix.ID && at != nil && at.Policy == ix.Policy() {
		return at
	}
	if noted := b.Records.State().Builds[ix.ID]; noted != nil && noted.Policy == ix.Policy() {
		return noted
	}
	return nil
}

// reached notes how far the build of an index has come, in the records from time to time.
func (b *Builder) reached(ctx context.Context, id uint32, at *meta.Build, saved *time.Time) {
	b.mu.Lock()
	b.built, b.at = id, at
	b.mu.Unlock()
	if b.Sched.Since(*saved) < b.SavePause {
		return
	}
	*saved = b.Sched.Now()
	_, err := b.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		if _, ix := s.Schema.IndexByID(id); !s.Building[id] || ix == nil || ix.Policy() != at.Policy {
			return s, nil // it was dropped, or is to be built by another policy
		}
		return s.WithBuild(id, at), nil
	})
	if err != nil && ctx.Err() == nil {
		b.Log.LogAttrs(ctx, slog.LevelInfo, "how far an index is built could not be noted",
			slog.Uint64("index", uint64(id)), slog.String("error", err.Error()))
	}
}

// Look says that there may be something to build, or that something was built. It does not block.
func (b *Builder) Look() {
	b.mu.Lock()
	close(b.changed)
	b.changed = make(chan struct{})
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Await waits until indexes are complete, for a second at most.
func (b *Builder) Await(ctx context.Context, indexes []*schema.Index) {
	if len(indexes) == 0 {
		return
	}
	for until := b.Sched.Now().Add(awaitMax); ; {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		left := b.Sched.Until(until)
		if left <= 0 || !slices.ContainsFunc(indexes, b.Building) {
			return
		}
		if _, err := sched.Await(b.Sched, ctx, changed, left); err != nil {
			return
		}
	}
}

// Run builds what is to be built until ctx ends. The next start, or the next node whose turn it is, goes on with it.
func (b *Builder) Run(ctx context.Context) {
	for {
		for _, id := range slices.Sorted(maps.Keys(b.Records.State().Building)) {
			if ctx.Err() == nil && b.Mine() {
				b.trainFirst(ctx, id)
				b.Build(ctx, id)
			}
		}
		if b.Mine() {
			b.trainDue(ctx)
		}
		if b.Sched.Sleep(ctx, retryPause, b.wake) != nil {
			return
		}
	}
}

// Build builds one index, or logs why it could not; then the records still have it as one to be built.
func (b *Builder) Build(ctx context.Context, id uint32) {
	began := b.Sched.Now()
	var rows int
	t, ix, err := b.current(id)
	policy := ""
	if err == nil {
		policy = ix.Policy()
	}
	if err == nil {
		// Mutations that were planned before the index was there are in the log now, before this, or are refused from
		// now on.
		err = b.Table.Require(ctx, t.ID, t.Revision)
	}
	if err == nil {
		rows, err = b.scan(ctx, id, policy)
	}
	gone := errors.Is(err, errDropped)
	if err == nil || gone {
		_, err = b.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
			if !s.Building[id] {
				return s, nil
			}
			if _, now := s.Schema.IndexByID(id); gone && now != nil || now != nil && now.Policy() != policy {
				// The records have it before this node's statements do, or it is to be built by another policy now:
				// the next look finds it.
				return s, nil
			}
			return s.WithBuilding(id, false), nil
		})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		b.Log.LogAttrs(ctx, slog.LevelWarn, "index build failed and is tried again",
			slog.Uint64("index", uint64(id)), slog.String("error", err.Error()))
	case !gone:
		b.Log.LogAttrs(ctx, slog.LevelInfo, "index built", slog.String("table", t.String()),
			slog.String("index", ix.Name),
			slog.Int("rows", rows), slog.Duration("took", b.Sched.Since(began)))
	}
}

// errDropped ends the build of an index that was dropped meanwhile, or whose table was.
var errDropped = errors.New("the index was dropped")

// current is an index and its table as they are now: a table may be altered while its index is being built.
func (b *Builder) current(id uint32) (*schema.Table, *schema.Index, error) {
	t, ix := b.Schema().IndexByID(id)
	if ix == nil {
		return nil, nil, errDropped
	}
	return t, ix, nil
}

// scan writes the entries of every row of the table, chunk by chunk, from where the build before this one ended. rows
// is how many it was in all.
func (b *Builder) scan(ctx context.Context, id uint32, policy string) (rows int, err error) {
	v := &visitor{entries: b.Entries}
	read := command.Read{Range: token.Full, Level: dberr.Quorum}
	saved := b.Sched.Now()
	if at := b.Records.State().Builds[id]; at != nil && at.Policy == policy {
		rows = int(at.Rows)
		read.AfterKey, read.AfterToken, read.AfterClustering, read.AfterPartition = at.Key, at.Token, at.Clustering,
			at.Whole
	}
	for {
		if v.table, v.index, err = b.current(id); err != nil {
			return rows, err
		}
		v.begin(&read)
		read.Table, read.Now = v.table.ID, b.Past()
		read.Statics, read.Dropped = len(v.table.Statics) > 0, v.table.Hidden()
		if err := b.giveWay(ctx); err != nil {
			return rows, err
		}
		err := b.chunk(ctx, &read, v)
		if errors.Is(err, ErrAgain) && b.Sched.Sleep(ctx, publicationPause) == nil {
			continue // the replicas know the new table a moment before everybody else
		}
		if err != nil {
			if _, _, gone := b.current(id); gone != nil {
				err = gone
			}
			return rows, err
		}
		rows += v.rows
		if !v.full {
			return rows, nil
		}
		b.reached(ctx, id, &meta.Build{Policy: policy, Token: v.token, Key: v.key, Clustering: v.clustering,
			Whole: v.whole, Rows: int64(rows)}, &saved)
		read.AfterKey, read.AfterToken, read.AfterClustering, read.AfterPartition = v.key, v.token, v.clustering,
			v.whole
	}
}

// giveWay waits while the machine is short, for yieldMax at most.
func (b *Builder) giveWay(ctx context.Context) error {
	for until := b.Sched.Now().Add(yieldMax); b.Pressed != nil && b.Pressed() && b.Sched.Now().Before(until); {
		if err := b.Sched.Sleep(ctx, pressedPause); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// chunk reads some rows and writes their entries. Both wait where the throughput of the table is spent; what is written
// is not written again.
func (b *Builder) chunk(ctx context.Context, read *command.Read, v *visitor) error {
	began := *v
	err := b.patiently(ctx, func(who share.Claimant) (bool, error) {
		*v = began
		read.Claimant = who
		return false, b.Table.Read(ctx, read, v)
	})
	if v.end(); err != nil || len(v.mutations) == 0 {
		return err
	}
	return b.patiently(ctx, func(who share.Claimant) (progress bool, err error) {
		for i := range v.mutations {
			v.mutations[i].Claimant = who
		}
		left, err := b.Table.Write(ctx, v.mutations, dberr.Quorum)
		if busy := new(dberr.Overloaded); errors.As(err, &busy) {
			progress = len(left) < len(v.mutations)
			v.mutations = left
		}
		return progress, err
	})
}

// patiently does something until it is not refused any more: with low priority, and with that of clients when it has
// come no further for yieldMax, so that they do not starve a build.
func (b *Builder) patiently(ctx context.Context, do func(who share.Claimant) (progress bool, err error)) error {
	for since := b.Sched.Now(); ; {
		who := share.Internal
		who.Low = b.Sched.Since(since) < yieldMax
		progress, err := do(who)
		busy, ok := errors.AsType[*dberr.Overloaded](err)
		if !ok {
			return err
		}
		if progress {
			since = b.Sched.Now()
		}
		if err := b.Sched.Sleep(ctx, max(busy.RetryAfter, publicationPause)); err != nil {
			return err
		}
	}
}
