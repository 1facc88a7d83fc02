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
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/vector"
)

const (
	// listsPause is how often it is looked whether an index of vectors has to have other lists.
	listsPause = 20 * time.Second
	// listsRows is from how many rows of a table on an index has lists: a search looks at all rows of fewer.
	listsRows = 2_500
	// listsGrowth is how many times as many vectors as before have an index get other lists.
	listsGrowth = 4
	// sampleBytes bounds the sample by which centres are found.
	sampleBytes = 64 << 20
	// guesses is how often, and guessRows over how many vectors, the number of vectors is guessed.
	guesses   = 5
	guessRows = 400
	// sampleParts is from how many places of the ring a sample comes.
	sampleParts = 64
)

// lists reports whether indexes of vectors may have lists.
func (b *Builder) lists() bool { return b.Change != nil && b.Listed() }

// trainDue sees to the lists of all indexes of vectors from time to time.
func (b *Builder) trainDue(ctx context.Context) {
	if !b.lists() || b.Sched.Since(b.trained) < b.ListsPause {
		return
	}
	b.trained = b.Sched.Now()
	for ks := range b.Schema().All() {
		for _, t := range ks.Tables {
			for _, ix := range t.SortedIndexes() {
				if c := t.ByName[ix.Column]; c != nil && len(ix.ListsOf(c)) > 0 && !b.Building(ix) && ctx.Err() == nil {
					b.trainLogged(ctx, t, ix, c)
				}
			}
		}
	}
}

// trainFirst gives an index of vectors that is about to be built the lists that it is going to need.
func (b *Builder) trainFirst(ctx context.Context, id uint32) {
	t, ix := b.Schema().IndexByID(id)
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
		b.Log.LogAttrs(ctx, slog.LevelWarn, "lists of vectors could not be found and are tried again",
			slog.String("table", t.String()), slog.String("index", ix.Name), slog.String("error", err.Error()))
	case lists != nil:
		b.Log.LogAttrs(ctx, slog.LevelInfo, "index of vectors gets other lists", slog.String("table", t.String()),
			slog.String("index", ix.Name), slog.Int("lists", lists.Len()), slog.Int64("rows", lists.Rows),
			slog.Duration("took", b.Sched.Since(began)))
	}
}

// train gives an index other lists where it has grown, and drops those that are not needed any more. The index is then
// built by them; until it is, those before are read.
func (b *Builder) train(ctx context.Context, t *schema.Table, ix *schema.Index, c *schema.Column) (*vector.Lists,
	error) {
	now := ix.ListsOf(c)
	set := &schema.SetLists{Index: ix.ID, Before: now[0].Generation}
	if len(now) > 1 && !b.Building(ix) {
		set.Lists = now[:1]
		return nil, b.Change(ctx, set)
	}
	if now[0].None() {
		v := &sampler{column: c, most: int(b.ListsRows), rows: true}
		if err := b.draw(ctx, t, v, 0); err != nil || v.seen < v.most {
			return nil, err
		}
	}
	rows, err := b.guess(ctx, t, c)
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
		set.Lists = set.Lists[:1] // those before were never complete
	}
	return next, b.Change(ctx, set)
}

// guess is how many vectors a table has, about: the middle of what several places of the ring tell. It is too low where
// few logical partitions have most of them.
func (b *Builder) guess(ctx context.Context, t *schema.Table, c *schema.Column) (int64, error) {
	var all []int64
	for range guesses {
		v := &sampler{column: c, most: guessRows}
		begin := rand.Uint64()
		if err := b.draw(ctx, t, v, begin); err != nil {
			return 0, err
		}
		covered := v.last - begin
		if v.seen < guessRows { // the ring ended: go on from its beginning
			if err := b.draw(ctx, t, v, 0); err != nil {
				return 0, err
			}
			if covered = v.last - begin; v.seen < guessRows {
				return int64(v.seen) / 2, nil // twice round, about: there are no more
			}
		}
		all = append(all, int64(float64(v.seen)*(float64(1<<63)*2/max(1, float64(covered)))))
	}
	slices.SortFunc(all, cmp.Compare)
	return all[len(all)/2], nil
}

// samplePlace is where on the ring a part of a sample begins.
func samplePlace(part uint64) uint64 { return part * (math.MaxUint64 / sampleParts) }

// sample draws vectors from all parts of the ring.
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

// draw passes the rows of a table behind a place on the ring to a sampler, as one of low priority.
func (b *Builder) draw(ctx context.Context, t *schema.Table, v *sampler, begin uint64) error {
	if err := b.giveWay(ctx); err != nil {
		return err
	}
	q := command.Read{Table: t.ID, Range: token.Range{Begin: begin}, Level: dberr.One, Now: b.Past(),
		Dropped: t.Hidden(), Claimant: share.Internal}
	q.Claimant.Low = true
	return b.Table.Read(ctx, &q, v)
}

// sampler draws vectors.
type sampler struct {
	column *schema.Column
	// seen is how many there were, most how many there are to be; keep says that they are wanted, too, rows that rows
	// without one count as well.
	seen, most int
	keep, rows bool
	vectors    [][]float32
	// last is where on the ring the last row stood; looked counts the rows since the last vector.
	last   uint64
	looked int
}

// Partition implements command.Visitor.
func (v *sampler) Partition(tok token.Token, _ []byte, _ *row.Row) (command.Step, error) {
	v.last = tok.Position()
	return command.More, nil
}

// Row implements command.Visitor.
func (v *sampler) Row(_ []byte, r *row.Row) (command.Step, error) {
	if v.looked++; v.looked > chunkLooked {
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
	v.looked = 0
	if v.seen++; v.seen >= v.most {
		return command.Stop, nil
	}
	return command.More, nil
}
