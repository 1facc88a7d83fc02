// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/vector"
)

const (
	// listsPause is the interval at which the Builder checks whether a vector index needs other lists.
	listsPause = 20 * time.Second
	// listsRows is the number of rows at which a table's vector index gets lists. A search of a smaller table examines
	// all rows.
	listsRows = 2_500
	// listsGrowth is the factor by which the number of vectors must increase before an index gets other lists.
	listsGrowth = 4
	// sampleBytes is the maximum size of the sample from which the centers are computed.
	sampleBytes = 64 << 20
	// guesses is the number of estimates of the number of vectors. guessRows is the number of vectors for each
	// estimate.
	guesses   = 5
	guessRows = 400
	// sampleParts is the number of ring positions at which vectors are sampled.
	sampleParts = 64
)

// lists reports whether vector indexes may have lists.
func (b *Builder) lists() bool { return b.Lists != nil && b.Lists.SupportsLists() }

// trainDue updates the lists of all vector indexes periodically.
func (b *Builder) trainDue(ctx context.Context) {
	if !b.lists() || b.Sched.Since(b.trained) < b.ListsPause {
		return
	}
	b.trained = b.Sched.Now()
	for ks := range b.Catalog.Snapshot().All() {
		for _, t := range ks.Tables {
			for _, ix := range t.SortedIndexes() {
				if c := t.ByName[ix.Column]; c != nil && len(ix.ListsOf(c)) > 0 && !b.Building(ix) && ctx.Err() == nil {
					b.trainLogged(ctx, t, ix, c)
				}
			}
		}
	}
}

// trainFirst assigns lists to a vector index before it is built.
func (b *Builder) trainFirst(ctx context.Context, id uint32) {
	t, ix := b.Catalog.Snapshot().IndexByID(id)
	if ix == nil || !b.lists() {
		return
	}
	if c := t.ByName[ix.Column]; c != nil && len(ix.Lists) == 0 && len(ix.ListsOf(c)) > 0 {
		b.trainLogged(ctx, t, ix, c)
	}
}

func (b *Builder) trainLogged(ctx context.Context, t *schema.Table, ix *schema.Index, c *schema.Column) {
	began := b.Sched.Now()
	lists, err := b.train(ctx, t, ix, c)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		b.Log.LogAttrs(ctx, slog.LevelWarn, "cannot compute the lists of a vector index; retrying",
			slog.String("table", t.String()), slog.String("index", ix.Name), slog.String("error", err.Error()))
	case lists != nil:
		b.Log.LogAttrs(ctx, slog.LevelInfo, "vector index is being rebuilt with new lists", slog.String("table",
			t.String()),
			slog.String("index", ix.Name), slog.Int("lists", lists.Len()), slog.Int64("rows", lists.Rows),
			slog.Duration("took", b.Sched.Since(began)))
	}
}

// train assigns other lists to an index that has grown, and removes unnecessary lists. The index is then rebuilt with
// the new lists. Searches use the old lists until the build is complete.
func (b *Builder) train(ctx context.Context, t *schema.Table, ix *schema.Index, c *schema.Column) (*vector.Lists,
	error) {
	now := ix.ListsOf(c)
	set := &schema.SetLists{Index: ix.ID, Before: now[0].Generation}
	if len(now) > 1 && !b.Building(ix) {
		set.Lists = now[:1]
		return nil, b.Lists.SetLists(ctx, set)
	}
	if now[0].None() {
		v := &sampler{column: c, most: int(b.ListsRows), rows: true}
		if err := b.draw(ctx, t, v, 0); err != nil || v.seen < v.most {
			return nil, err
		}
	}
	rows, err := b.estimateVectors(ctx, t, c)
	if err != nil || !now[0].None() && (rows < listsGrowth*now[0].Rows ||
		vector.ListsFor(rows, c.Type.Dimension) <= now[0].Len()) {
		return nil, err
	}
	want := vector.ListsFor(rows, c.Type.Dimension) * vector.SampleRows
	sample, err := b.sample(ctx, t, c, min(want, sampleBytes/(4*c.Type.Dimension)))
	if err != nil {
		return nil, err
	}
	next := now[0].Train(sample, rows)
	if next.Len() <= now[0].Len() && !now[0].None() {
		return nil, nil
	}
	if set.Lists = append(schema.Lists{next}, now[0]); b.Building(ix) {
		set.Lists = set.Lists[:1] // the previous lists are incomplete
	}
	return next, b.Lists.SetLists(ctx, set)
}

// estimateVectors estimates the number of vectors in a table as the median of estimates at several ring positions. The
// estimate is too low if a few logical partitions contain most of the vectors.
func (b *Builder) estimateVectors(ctx context.Context, t *schema.Table, c *schema.Column) (int64, error) {
	var all []int64
	for range guesses {
		v := &sampler{column: c, most: guessRows}
		begin := rand.Uint64()
		if err := b.draw(ctx, t, v, begin); err != nil {
			return 0, err
		}
		covered := v.last - begin
		if v.seen < guessRows { // continue at the beginning of the ring
			if err := b.draw(ctx, t, v, 0); err != nil {
				return 0, err
			}
			if covered = v.last - begin; v.seen < guessRows {
				return int64(v.seen) / 2, nil // after about two rounds, the table has no more vectors
			}
		}
		all = append(all, int64(float64(v.seen)*(float64(1<<63)*2/max(1, float64(covered)))))
	}
	slices.SortFunc(all, cmp.Compare)
	return all[len(all)/2], nil
}

// samplePlace returns the ring position at which a part of a sample begins.
func samplePlace(part uint64) uint64 { return part * (math.MaxUint64 / sampleParts) }

// sample samples vectors from all parts of the ring.
func (b *Builder) sample(ctx context.Context, t *schema.Table, c *schema.Column, most int) ([][]float32, error) {
	v := &sampler{column: c, keep: true}
	for i := range uint64(sampleParts) {
		v.most = most * int(i+1) / sampleParts
		if err := b.draw(ctx, t, v, samplePlace(i)); err != nil {
			return nil, err
		}
	}
	return v.vectors, nil
}

// draw passes the rows of a table after a ring position to a sampler, with low priority.
func (b *Builder) draw(ctx context.Context, t *schema.Table, v *sampler, begin uint64) error {
	if err := b.yield(ctx); err != nil {
		return err
	}
	q := command.Read{Table: t.ID, Range: token.Range{Begin: begin}, Level: dberr.One, Now: b.expiredBefore(),
		Dropped: t.Hidden(), Principal: fairshare.Internal}
	q.Principal.Low = true
	return b.Table.Read(ctx, &q, v)
}

// sampler collects vectors.
type sampler struct {
	column *schema.Column
	// seen is the number of vectors found. most is the number of vectors to find. keep reports whether to keep the
	// vectors. rows reports whether rows without a vector also count.
	seen, most int
	keep, rows bool
	vectors    [][]float32
	// last is the ring position of the last row. examined is the number of rows since the last vector.
	last     uint64
	examined int
}

// Partition implements command.Visitor.
func (v *sampler) Partition(tok token.Token, _ []byte, _ *row.Row) (command.Step, error) {
	v.last = tok.Position()
	return command.More, nil
}

// Row implements command.Visitor.
func (v *sampler) Row(_ []byte, r *row.Row) (command.Step, error) {
	if v.examined++; v.examined > chunkExamined {
		return command.Stop, nil
	}
	cell := r.Cell(v.column.ID)
	if v.rows {
		return v.count()
	}
	if cell == nil {
		return command.More, nil
	}
	x, ok := v.column.Type.Floats(nil, cell.Value)
	if !ok || vector.Cosine.Check(x) != nil {
		return command.More, nil
	}
	if v.keep {
		v.vectors = append(v.vectors, x)
	}
	return v.count()
}

func (v *sampler) count() (command.Step, error) {
	v.examined = 0
	if v.seen++; v.seen >= v.most {
		return command.Stop, nil
	}
	return command.More, nil
}
