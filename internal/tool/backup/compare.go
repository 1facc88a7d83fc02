// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// Comparer compares a backup with tables that were restored under their original names. It compares the rows that a
// reader sees, including timestamps and times to live. Its memory is limited to one file of each side and to the range
// deletions of one logical partition.
type Comparer struct {
	Node     NodeClient
	Target   Target
	Manifest *archive.Manifest
	// Finished is set if the restore has completed batches that were in progress at the time of the backup. In this
	// case, a row may contain more data than in the backup, but not less data.
	Finished bool
	// Now is the time at which rows are evaluated, in seconds.
	Now int64
	// Display shows the progress. It may be nil.
	Display Display

	state *meta.State
	taken archive.Snapshot
	done  Progress
	out   Compared
}

// Compared is the result of a comparison.
type Compared struct {
	// Tables and Rows are the numbers of tables and rows that match the backup. Finished is the number of rows that
	// differ because of completed batches. Different is the number of rows that differ for another reason. Examples
	// describes the first of these rows.
	Tables, Rows, Finished, Different int
	Examples                          []string
	// Views and Indexes list the derived views and indexes in the form keyspace.name. Others lists vector indexes and
	// containers, which ilion verify does not support.
	Views, Indexes, Others []string
}

// examplesMax is the maximum number of examples.
const examplesMax = 10

// Compare compares all user tables.
func (c *Comparer) Compare(ctx context.Context) (*Compared, error) {
	records, err := read(ctx, c.Target, c.Manifest.Metadata)
	if err != nil {
		return nil, err
	}
	c.state, err = meta.Load(func(fn func(key, value []byte) error) (uint64, error) {
		return 1, archive.EachRecord(records, fn)
	})
	if err != nil {
		return nil, err
	}
	answer, err := c.Node.Order(ctx, "backup/begin", nil)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, &c.taken); err != nil {
		return nil, fmt.Errorf("cannot decode the response of the node: %w", err)
	}
	c.Manifest.Files(func(f archive.File) { c.done.All += f.Bytes })
	for i := range c.Manifest.Tables {
		t := &c.Manifest.Tables[i]
		if schema.IsSystem(t.Keyspace) {
			continue
		}
		if err := c.table(ctx, t); err != nil {
			return nil, fmt.Errorf("table %s.%s: %w", t.Keyspace, t.Name, err)
		}
		c.out.Tables++
	}
	return &c.out, nil
}

// table compares a table.
func (c *Comparer) table(ctx context.Context, t *archive.Table) error {
	of := c.state.Schema.Table(t.Keyspace, t.Name)
	at := slices.IndexFunc(c.taken.Tables, func(o archive.Table) bool {
		return o.Keyspace == t.Keyspace && o.Name == t.Name
	})
	if of == nil || at < 0 {
		return errors.New("the table is in the backup but was not restored")
	}
	c.derived(of)
	dropped := of.Hidden()
	want := sight{table: t.ID, now: c.Now, dropped: dropped}
	have := sight{table: c.taken.Tables[at].ID, now: c.Now, dropped: dropped}
	return c.rows(ctx, of, want.pull(c.files(ctx, t)), have.pull(c.pages(ctx, &c.taken.Tables[at])))
}

// rows compares the rows of the backup with the stored rows. Both are in ascending order.
func (c *Comparer) rows(ctx context.Context, t *schema.Table, backed, stored *pulled) error {
	defer backed.end()
	defer stored.end()
	a, err := backed.next()
	if err != nil {
		return err
	}
	b, err := stored.next()
	for err == nil && (a != nil || b != nil) {
		left, right := a, b
		if a != nil && b != nil {
			switch order := bytes.Compare(a.key, b.key); {
			case order > 0:
				left = nil
			case order < 0:
				right = nil
			}
		}
		err = c.pair(t, left, right)
		if err == nil && left != nil {
			a, err = backed.next()
		}
		if err == nil && right != nil {
			b, err = stored.next()
		}
		err = cmp.Or(err, ctx.Err())
	}
	return err
}

// pair compares a row of the backup with the stored row. Either row may be nil.
func (c *Comparer) pair(t *schema.Table, a, b *seen) error {
	was, is := a != nil && a.exists, b != nil && b.exists
	switch {
	case !was && !is:
		return nil
	case was && is && bytes.Equal(a.cells, b.cells):
		c.out.Rows++
		return nil
	}
	what := "differs"
	switch {
	case !was && c.Finished:
		c.out.Finished++
		return nil
	case !was:
		what = "is not in the backup"
	case !is:
		what = "is missing"
	}
	if was && b != nil && c.Finished {
		// A completed batch may have added data that hides part of the row. If the row of the backup is merged into
		// the stored row, the stored row must not change.
		both, err := row.Merge(nil, a.raw, b.raw)
		if err != nil {
			return err
		}
		again := seen{raw: both, deleted: b.deleted}
		if err := again.resolve(b.now, b.dropped); err != nil {
			return err
		}
		if again.exists == b.exists && bytes.Equal(again.cells, b.cells) {
			c.out.Finished++
			return nil
		}
	}
	key := b
	if a != nil {
		key = a
	}
	if c.out.Different++; len(c.out.Examples) < examplesMax {
		c.out.Examples = append(c.out.Examples, fmt.Sprintf("%s.%s: the row with the key %x %s", t.Keyspace, t.Name,
			key.key, what))
	}
	return nil
}

// derived records the views and indexes of a table.
func (c *Comparer) derived(t *schema.Table) {
	for _, v := range c.state.Schema.Keyspaces[t.Keyspace].ViewsOf(t.Name) {
		c.out.Views = append(c.out.Views, t.Keyspace+"."+v.Name)
	}
	for name, ix := range t.Indexes {
		switch {
		case ix.Kind == schema.ViewKind:
		case ix.Kind == schema.DocumentKind || t.OfVectors(ix):
			c.out.Others = append(c.out.Others, t.Keyspace+"."+name)
		default:
			c.out.Indexes = append(c.out.Indexes, t.Keyspace+"."+name)
		}
	}
	slices.Sort(c.out.Indexes)
	slices.Sort(c.out.Others)
}

// files returns the records of a table in the backup in order.
func (c *Comparer) files(ctx context.Context, t *archive.Table) records {
	return func(fn func(key, value []byte) error) error {
		for _, p := range t.Partitions {
			for _, f := range p.Files {
				plain, err := read(ctx, c.Target, f)
				if err == nil {
					err = archive.EachRecord(plain, fn)
				}
				if err != nil {
					return err
				}
				c.done.Files++
				if c.done.Done += f.Bytes; c.Display != nil {
					c.Display.Show(c.done)
				}
			}
		}
		return nil
	}
}

// pages returns the records of a table in the cluster in order.
func (c *Comparer) pages(ctx context.Context, t *archive.Table) records {
	asker := Maker{Node: c.Node}
	return func(fn func(key, value []byte) error) error {
		for _, p := range t.Partitions {
			asked := archive.FileRequest{ID: c.taken.ID, Node: p.Node, Partition: p.ID}
			for {
				page, err := asker.page(ctx, &asked)
				if err != nil {
					return err
				}
				if page.File.Name == "" {
					break
				}
				plain, err := archive.Unpack(page.File.Name, page.Data)
				if err == nil {
					err = archive.EachRecord(plain, fn)
				}
				if err != nil {
					return err
				}
				if asked.From = page.Next; len(page.Next) == 0 {
					break
				}
			}
		}
		return nil
	}
}
