// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk/pipeline"
	"github.com/ilion-db/ilion/internal/tool/bulk/text"
)

// writer writes blocks over one connection.
type writer struct {
	load *load
	pipe *pipeline.Pipeline
	ctx  context.Context
	// statements maps the column names in a header to the prepared statement.
	statements map[string]*statement
	fields     []text.Field
	exec       cqlwire.Execute
}

// statement writes rows with the same columns.
type statement struct {
	id    []byte
	bind  []cqlwire.Column
	names []string
	// key marks the values that belong to the primary key. index maps columns to the positions of their values.
	key   []bool
	index map[string]int
	// short contains the IDs of the statements for rows with null in their last clustering columns. The first
	// statement is for rows with one such column, the second statement is for rows with two, and so on. These
	// statements omit the null columns.
	short [][]byte
	last  []int
}

// run writes blocks until no blocks remain.
func (w *writer) run(blocks <-chan *block) error {
	w.statements = map[string]*statement{}
	ahead := []*block{}
	// The first block determines the statement, which must be prepared before responses are read.
	if b, ok := <-blocks; ok {
		if err := w.prepare(b.columns); err != nil {
			return err
		}
		ahead = append(ahead, b)
	}
	w.pipe.Start()
	for {
		var b *block
		if len(ahead) > 0 {
			b, ahead = ahead[0], nil
		} else {
			select {
			case b = <-blocks:
			default: // no blocks are waiting, so flush the buffer
				w.pipe.Flush()
				b = <-blocks
			}
		}
		if b == nil {
			break
		}
		if err := w.block(b); err != nil {
			return err
		}
	}
	return w.pipe.Wait()
}

// block sends the rows of a block.
func (w *writer) block(b *block) error {
	st := w.statements[strings.Join(b.columns, "\x00")]
	if st == nil {
		return fmt.Errorf("%s has different columns than the first file. Load it separately", b.path)
	}
	b.pending.Store(1)
	err := b.records(w.load.o.Format, func(line int, record string) error {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		if err := w.values(st, record); err != nil {
			b.reject(line, record, err)
			return nil
		}
		w.load.pace.Wait(w.ctx, 1)
		if w.load.o.DryRun {
			w.loaded(b)
			return nil
		}
		b.pending.Add(1)
		w.pipe.Send(cqlwire.OpExecute, func(dst []byte) []byte { return w.exec.Append(dst, cqlwire.V4) },
			func(err error) { w.answer(b, line, record, err) })
		return w.pipe.Err()
	})
	if err != nil {
		return err
	}
	return w.ended(b)
}

func (w *writer) loaded(b *block) {
	b.loaded.Add(1)
	w.load.o.Progress.Rows.Add(1)
}

// answer processes the response for a row.
func (w *writer) answer(b *block, line int, record string, err error) {
	switch {
	case err == nil:
		w.loaded(b)
	case Rejected(err):
		b.reject(line, record, err)
	default:
		w.load.cancel(fmt.Errorf("%s:%d: %w", b.path, line, err))
		return // the block remains incomplete and is loaded again
	}
	if err := w.ended(b); err != nil {
		w.load.cancel(err)
	}
}

// ended decrements the number of pending rows of a block.
func (w *writer) ended(b *block) error {
	if b.pending.Add(-1) > 0 {
		return nil
	}
	return w.load.ledger.ended(b)
}

// values converts a record into the values of the statement.
func (w *writer) values(st *statement, record string) error {
	e := &w.exec
	e.ID, e.Consistency = st.id, w.load.o.Client.Consistency
	e.Values = append(e.Values[:0], make([][]byte, len(st.bind))...)
	e.Unset = append(e.Unset[:0], make([]bool, len(st.bind))...)
	if w.load.o.Format.JSON {
		err := text.Members(record, func(name, value string) error {
			i, ok := st.index[cqltype.JSONName(name)]
			if !ok {
				if i, ok = st.index[name]; !ok {
					return fmt.Errorf("column %q does not exist", name)
				}
			}
			v, err := text.Member(st.bind[i].Type, value)
			if err != nil {
				return fmt.Errorf("column %s: %w", st.names[i], err)
			}
			e.Values[i] = v
			return nil
		})
		if err != nil {
			return err
		}
	} else if err := w.csv(st, record); err != nil {
		return err
	}
	counters, nulls := w.load.table.Counters(), st.nulls(e.Values)
	for i, v := range e.Values {
		switch {
		case v != nil:
		case st.key[i] && slices.Contains(st.last[:nulls], i):
		case st.key[i]:
			return fmt.Errorf("column %s of the primary key is null or missing", st.names[i])
		case counters:
			e.Values[i] = make([]byte, 8) // the value is zero
		case !w.load.o.NullsDelete:
			e.Unset[i] = true
		}
	}
	if nulls > 0 {
		e.ID = st.short[nulls-1]
		drop := slices.Sorted(slices.Values(st.last[:nulls]))
		for _, i := range slices.Backward(drop) {
			e.Values, e.Unset = slices.Delete(e.Values, i, i+1), slices.Delete(e.Unset, i, i+1)
		}
	}
	return nil
}

// nulls returns the number of trailing clustering columns that are null and may be null.
func (st *statement) nulls(values [][]byte) (n int) {
	for n < len(st.short) && values[st.last[n]] == nil {
		n++
	}
	return n
}

// shorten prepares the statements for rows whose last clustering columns are null.
func (w *writer) shorten(st *statement) error {
	t, o := w.load.table, w.load.o
	if !t.Prefixes {
		return nil
	}
	clustering := t.clustering()
	for n := len(clustering) - 1; n > 0; n-- {
		names := slices.DeleteFunc(slices.Clone(st.names), func(name string) bool {
			return slices.Contains(clustering[n:], name)
		})
		query, _ := t.insert(names, o.TTL, o.Timestamp)
		r, err := w.pipe.Conn().Prepare(query)
		if err != nil {
			return err
		}
		st.short, st.last = append(st.short, slices.Clone(r.ID)), append(st.last, st.index[clustering[n]])
	}
	return nil
}

func (w *writer) csv(st *statement, record string) (err error) {
	if w.fields, err = w.load.o.Format.Dialect.Fields(w.fields[:0], record); err != nil {
		return err
	}
	if len(w.fields) != len(st.bind) {
		return fmt.Errorf("the record has %d fields instead of %d", len(w.fields), len(st.bind))
	}
	for i, f := range w.fields {
		if f.Null {
			continue
		}
		at := st.index[st.names[i]]
		if w.exec.Values[at], err = text.Parse(st.bind[at].Type, f.Text); err != nil {
			return fmt.Errorf("column %s: %w", st.names[i], err)
		}
	}
	return nil
}

// prepare prepares the statement for the columns of a header. header is nil if the source has no header.
func (w *writer) prepare(header []string) error {
	t, o := w.load.table, w.load.o
	given := o.Columns
	if len(given) == 0 {
		given = header
	}
	if len(given) == 0 {
		given = t.Names(nil)
	}
	var names []string
	for _, name := range given {
		if _, ok := t.Column(name); !ok {
			if _, ok = t.Column(cqltype.JSONName(name)); !ok {
				return fmt.Errorf("table %s has no column %s: its columns are %s; set the columns of the file with --columns",
					t.Name, name, QuoteAll(t.Names(nil)))
			}
			name = cqltype.JSONName(name)
		}
		if slices.Contains(names, name) {
			return fmt.Errorf("column %s is specified twice", name)
		}
		names = append(names, name)
	}
	for _, key := range t.Names(Column.IsKey) {
		if !slices.Contains(names, key) && !(o.Format.JSON && len(o.Columns) == 0) {
			return fmt.Errorf("primary key column %s is missing in %s", key, QuoteAll(names))
		}
	}
	query, bound := t.insert(names, o.TTL, o.Timestamp)
	r, err := w.pipe.Conn().Prepare(query)
	if err != nil {
		return err
	}
	if len(r.Bind) != len(bound) {
		return fmt.Errorf("prepare %s: the server binds %d values", query, len(r.Bind))
	}
	st := &statement{id: slices.Clone(r.ID), bind: r.Bind, names: names, index: map[string]int{}}
	for i, name := range bound {
		st.index[name] = i
		c, _ := t.Column(name)
		st.key = append(st.key, c.IsKey())
	}
	if t.Counters() && (o.TTL != 0 || o.Timestamp != 0) {
		return errors.New("counters do not support a TTL or a timestamp")
	}
	w.statements[strings.Join(header, "\x00")] = st
	return w.shorten(st)
}

// insert returns the statement that writes columns, and the columns in the order of its markers.
func (t *Table) insert(names []string, ttl int, timestamp int64) (query string, bound []string) {
	if t.Counters() {
		var sets, where, last []string
		for _, name := range names {
			quoted := cqltype.QuoteName(name)
			if c, _ := t.Column(name); c.IsKey() {
				where, last = append(where, quoted+" = ?"), append(last, name)
			} else {
				sets, bound = append(sets, quoted+" = "+quoted+" + ?"), append(bound, name)
			}
		}
		query = "UPDATE " + t.Name.String() + " SET " + strings.Join(sets, ", ") + " WHERE " +
			strings.Join(where, " AND ")
		return query, append(bound, last...)
	}
	query = "INSERT INTO " + t.Name.String() + " (" + QuoteAll(names) + ") VALUES (?" +
		strings.Repeat(", ?", len(names)-1) + ")"
	var using []string
	if ttl > 0 {
		using = append(using, "TTL "+strconv.Itoa(ttl))
	}
	if timestamp != 0 {
		using = append(using, "TIMESTAMP "+strconv.FormatInt(timestamp, 10))
	}
	if len(using) > 0 {
		query += " USING " + strings.Join(using, " AND ")
	}
	return query, names
}
