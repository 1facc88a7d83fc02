// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const (
	// buildChunk is how many rows a build reads before it writes their entries.
	buildChunk = 2000
	// buildWait is how long CREATE INDEX waits, so that the index of a small table is ready when the statement returns.
	buildWait = time.Second
	// buildRetry is the pause after a failed attempt.
	buildRetry = time.Second
	// publicationPause is the pause before a chunk is tried again because the table was being altered.
	publicationPause = 5 * time.Millisecond
)

// indexBuilder writes the entries of rows that were there before their index. Later writes make their own entries. Which indexes are
// to be built is in the records; in a cluster the node that leads the meta partition builds.
type indexBuilder struct {
	records     *meta.Keeper
	coordinator *coordinator.Coordinator
	schema      func() *schema.Schema // as it is now
	// mine reports whether this node is to build; require makes all replicas of a table refuse mutations of older revisions.
	mine    func() bool
	require func(ctx context.Context, table uint32, revision uint64) error
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	wake    chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and made anew by look
}

func newIndexBuilder(k *meta.Keeper, c *coordinator.Coordinator, now func() *schema.Schema, log *slog.Logger) *indexBuilder {
	b := &indexBuilder{records: k, coordinator: c, schema: now, log: log, wake: make(chan struct{}, 1), changed: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Building reports whether an index is not complete yet.
func (b *indexBuilder) Building(ix *schema.Index) bool { return b.records.State().Building[ix.ID] }

// look says that there may be something to build, or that something was built. It does not block.
func (b *indexBuilder) look() {
	b.mu.Lock()
	close(b.changed)
	b.changed = make(chan struct{})
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// wait waits until indexes are complete, up to buildWait.
func (b *indexBuilder) wait(ctx context.Context, fresh []tableIndex) {
	if len(fresh) == 0 {
		return
	}
	t := time.NewTimer(buildWait)
	defer t.Stop()
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		if !slices.ContainsFunc(fresh, func(ti tableIndex) bool { return b.Building(ti.index) }) {
			return
		}
		select {
		case <-changed:
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// start builds in the background what is to be built, until close.
func (b *indexBuilder) start() { b.wg.Go(b.run) }

func (b *indexBuilder) run() {
	t := time.NewTicker(buildRetry) // whose turn it is can change without a sign
	defer t.Stop()
	for {
		for id := range b.records.State().Building {
			if b.ctx.Err() == nil && b.mine() {
				b.build(id)
			}
		}
		select {
		case <-b.ctx.Done():
			return
		case <-b.wake:
		case <-t.C:
		}
	}
}

// close ends the builds; the next start, or the next leader, goes on with them.
func (b *indexBuilder) close() {
	b.cancel()
	b.wg.Wait()
}

// build builds one index, or says why it could not; then it is tried again.
func (b *indexBuilder) build(id uint32) {
	began := time.Now()
	var rows int
	ti, err := b.current(id)
	if err == nil {
		// Mutations that were planned before the index was there are in the log now, before this, or are refused from now on.
		err = b.require(b.ctx, ti.table.ID, ti.table.Revision)
	}
	if err == nil {
		rows, err = b.scan(id)
	}
	gone := errors.Is(err, errIndexGone)
	if err == nil || gone {
		_, err = b.records.Update(b.ctx, func(s *meta.State) (*meta.State, error) {
			if !s.Building[id] || gone && indexIDs(catalog.WithSystem(s.Schema))[id] {
				return s, nil // the records have it before everybody else: the next look finds it
			}
			return s.WithBuilding(id, false), nil
		})
	}
	switch {
	case b.ctx.Err() != nil:
	case err != nil:
		b.log.LogAttrs(b.ctx, slog.LevelWarn, "index build failed and is tried again", slog.Uint64("index", uint64(id)), slog.String("error", err.Error()))
	case !gone:
		b.log.LogAttrs(b.ctx, slog.LevelInfo, "index built", slog.String("table", ti.table.String()), slog.String("index", ti.index.Name),
			slog.Int("rows", rows), slog.Duration("took", time.Since(began)))
	}
}

// errIndexGone ends the build of an index that was dropped meanwhile, or whose table was.
var errIndexGone = errors.New("the index was dropped")

// current is an index and its table as they are now: a table may be altered while its index is being built.
func (b *indexBuilder) current(id uint32) (tableIndex, error) {
	for _, t := range storedTables(b.schema()) {
		for _, ix := range t.Indexes {
			if ix.ID == id {
				return tableIndex{t, ix}, nil
			}
		}
	}
	return tableIndex{}, errIndexGone
}

// scan writes the entries of every row of the table, chunk by chunk.
func (b *indexBuilder) scan(id uint32) (rows int, err error) {
	v := new(buildVisitor)
	read := command.Read{Range: token.Full, Level: dberr.Quorum}
	for {
		if v.ti, err = b.current(id); err != nil {
			return rows, err
		}
		v.mutations, v.rows, v.full, v.whole = nil, 0, false, false
		read.Table, read.Now = v.ti.table.ID, time.Now().Unix()
		read.Statics, read.Dropped = len(v.ti.table.Statics) > 0, v.ti.table.DroppedIDs()
		err := b.chunk(&read, v)
		if repeat := errors.Is(err, coordinator.ErrStaleSchema) || errors.Is(err, coordinator.ErrRepeat); repeat && b.ctx.Err() == nil {
			select { // the replicas know the new table a moment before everybody else
			case <-b.ctx.Done():
			case <-time.After(publicationPause):
			}
			continue
		}
		if err != nil {
			if _, gone := b.current(id); gone != nil {
				err = gone
			}
			return rows, err
		}
		rows += v.rows
		if !v.full {
			return rows, nil
		}
		read.AfterKey, read.AfterToken, read.AfterClustering, read.AfterPartition = v.key, v.token, v.clustering, v.whole
	}
}

// chunk reads some rows and writes their entries.
func (b *indexBuilder) chunk(read *command.Read, v *buildVisitor) error {
	if err := b.coordinator.Read(b.ctx, read, v); err != nil || len(v.mutations) == 0 {
		return err
	}
	done := make(waitDone, 1)
	b.coordinator.Write(b.ctx, v.mutations, coordinator.WriteOptions{Level: dberr.Quorum, Type: "UNLOGGED_BATCH"}, done)
	return <-done
}

// waitDone is a completion somebody waits for.
type waitDone chan error

// Done passes the outcome on.
func (w waitDone) Done(err error) { w <- err }

// buildVisitor turns rows into index entries.
type buildVisitor struct {
	ti         tableIndex
	mutations  []command.Mutation
	rows       int
	full       bool
	whole      bool // the last partition was read to its end
	token      token.Token
	key        []byte
	clustering []byte
}

// Partition begins a mutation for the logical partition.
func (v *buildVisitor) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	if len(v.mutations) >= buildChunk {
		v.full, v.whole = true, true // go on behind the partition before this one
		return command.Stop, nil
	}
	v.token, v.key, v.clustering = tok, append([]byte(nil), key...), nil
	m := command.Mutation{Table: v.ti.table.ID, Token: tok, Key: v.key, SchemaVersion: v.ti.table.Revision}
	if static != nil && v.ti.table.Column(v.ti.index.Column).Kind == schema.Static {
		if err := v.enter(&m, nil, static); err != nil {
			return command.Stop, err
		}
	}
	v.mutations = append(v.mutations, m)
	return command.More, nil
}

// Row adds the entries of a row.
func (v *buildVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	m := &v.mutations[len(v.mutations)-1]
	v.clustering = append([]byte(nil), clustering...)
	if v.ti.table.Column(v.ti.index.Column).Kind != schema.Static {
		if err := v.enter(m, v.clustering, r); err != nil {
			return command.Stop, err
		}
	}
	if v.rows++; v.rows >= buildChunk {
		v.full = true
		return command.Stop, nil
	}
	return command.More, nil
}

// enter adds the entries of a row.
func (v *buildVisitor) enter(m *command.Mutation, clustering []byte, r *row.Row) error {
	ops, err := expr.IndexOps(v.ti.table, v.ti.index, m.Key, clustering, r)
	for i := range ops {
		ops[i].Value = bytes.Clone(ops[i].Value) // a view over the row
	}
	m.Ops = append(m.Ops, ops...)
	return err
}

// indexHolds returns what tells a sweep whether an entry is still true: that the row has the value.
func indexHolds(t *schema.Table, ix *schema.Index) func(r *row.Row, value []byte) bool {
	if t.Column(ix.Column).Kind.IsKey() {
		return func(r *row.Row, _ []byte) bool { return r.Exists() } // a key column never changes
	}
	return func(r *row.Row, value []byte) bool {
		values, err := expr.IndexValues(t, ix, nil, nil, r)
		return err != nil || slices.ContainsFunc(values, func(v []byte) bool { return bytes.Equal(v, value) })
	}
}
