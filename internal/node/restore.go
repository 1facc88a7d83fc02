// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// restoreCommand executes a request of the restore tool: tables, rows, batches, or end.
func (n *Node) restoreCommand(ctx context.Context, what string, body []byte) ([]byte, error) {
	switch what {
	case "rows", "batches":
		page, err := archive.DecodeFileResponse(body)
		if err != nil {
			return nil, err
		}
		plain, err := archive.Unpack(page.File.Name, page.Data)
		if err != nil {
			return nil, err
		}
		if what == "rows" {
			return []byte("{}"), n.restoreRows(ctx, page.Table, plain)
		}
		return []byte("{}"), n.restoreBatches(ctx, page.Batches, plain)
	}
	var o archive.Restore
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("malformed restore request: %w", err)
	}
	from, err := stateOf(o.Metadata)
	if err != nil {
		return nil, err
	}
	switch what {
	case "tables":
		if o.Tables, err = n.restoreTables(ctx, from, &o); err != nil {
			return nil, err
		}
		return json.Marshal(o)
	case "end":
		return []byte("{}"), n.endRestore(ctx, from, &o)
	}
	return nil, fmt.Errorf("unknown restore request %q", what)
}

// sortedRecords sorts records by their keys.
func sortedRecords(records []command.Record) []command.Record {
	slices.SortFunc(records, func(a, b command.Record) int { return bytes.Compare(a.Key, b.Key) })
	return records
}

// stateOf decodes the metadata in a backup.
func stateOf(plain []byte) (*meta.State, error) {
	return meta.Load(func(fn func(key, value []byte) error) (uint64, error) {
		return 1, archive.EachRecord(plain, fn)
	})
}

func (n *Node) stamp() schema.Stamp {
	return schema.Stamp{Version: schema.UUID(uuid.New()), At: time.Now().UnixMicro(), Release: n.compat}
}

func settingOf(t *archive.RestoredTable) string { return meta.RestoreSetting(t.NewKeyspace, t.NewName) }

func restored(t *archive.RestoredTable) schema.Restored {
	return schema.Restored{Keyspace: t.Keyspace, Name: t.Name, AsKeyspace: t.NewKeyspace, As: t.NewName,
		ID: schema.UUID(uuid.New())}
}

// restoreTables creates missing tables and returns all tables with their IDs. An existing table is accepted only if its
// restore from the same backup was started before.
func (n *Node) restoreTables(ctx context.Context, from *meta.State, o *archive.Restore) ([]archive.RestoredTable,
	error) {
	now, err := n.metadata.ReadBarrier(ctx)
	if err != nil {
		return nil, err
	}
	change := &schema.Restore{Stamp: n.stamp(), From: from.Schema}
	for i := range o.Tables {
		t := &o.Tables[i]
		if now.Schema.Table(t.NewKeyspace, t.NewName) == nil {
			change.Tables = append(change.Tables, restored(t))
			continue
		}
		if t.Resumed = now.Settings[settingOf(t)] == o.Backup; !t.Resumed {
			return nil, fmt.Errorf("there is a table %s.%s already: drop it, or restore under another name (--as)",
				t.NewKeyspace, t.NewName)
		}
	}
	// The settings come first: without its setting, a table would be taken for a client's.
	_, err = n.metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		for i := range o.Tables {
			s = s.WithSetting(settingOf(&o.Tables[i]), o.Backup)
		}
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	if len(change.Tables) > 0 {
		if _, _, err := n.changer.Apply(ctx, change, ""); err != nil {
			return nil, err
		}
	}
	if now, err = n.metadata.ReadBarrier(ctx); err != nil {
		return nil, err
	}
	for i := range o.Tables {
		t := &o.Tables[i]
		was, is := from.Schema.Table(t.Keyspace, t.Name), now.Schema.Table(t.NewKeyspace, t.NewName)
		if was == nil || is == nil {
			return nil, fmt.Errorf("table %s.%s was dropped during the restore", t.NewKeyspace, t.NewName)
		}
		t.OldID, t.NewID = was.ID, is.ID
	}
	return o.Tables, nil
}

// endRestore creates indexes, views, and roles after the rows have been restored.
func (n *Node) endRestore(ctx context.Context, from *meta.State, o *archive.Restore) error {
	indexes := &schema.RestoreIndexes{Stamp: n.stamp(), From: from.Schema}
	for i := range o.Tables {
		indexes.Tables = append(indexes.Tables, restored(&o.Tables[i]))
	}
	if _, _, err := n.changer.Apply(ctx, indexes, ""); err != nil {
		return err
	}
	for i := range o.Tables {
		t := &o.Tables[i]
		for _, v := range from.Schema.Keyspaces[t.Keyspace].ViewsOf(t.Name) {
			as := archive.RestoredTable{Keyspace: t.Keyspace, Name: v.Name, NewKeyspace: t.NewKeyspace, NewName: v.Name}
			if t.NewName != t.Name {
				as.NewName = t.NewName + "_" + v.Name
			}
			view := &schema.RestoreView{Stamp: n.stamp(), From: from.Schema, View: restored(&as), Base: t.NewName}
			if _, _, err := n.changer.Apply(ctx, view, ""); err != nil {
				return err
			}
		}
	}
	if err := n.awaitUnique(ctx, o.Tables); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, schemachange.Timeout)
	defer cancel()
	_, err := n.metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		roles := s.Roles
		for _, r := range from.Roles.Roles() {
			if o.Roles && roles.Role(r.Name) == nil && !r.Configured {
				roles = roles.WithRole(r)
			}
		}
		if roles != s.Roles {
			s = s.WithRoles(roles)
		}
		for i := range o.Tables {
			s = s.WithSetting(settingOf(&o.Tables[i]), "")
		}
		return s, nil
	})
	return err
}

const (
	// restoreMutationBytes is the size above which the rows of a logical partition are divided among mutations.
	restoreMutationBytes = 256 << 10
	// restoreConcurrency bounds the mutations of a file that are in flight.
	restoreConcurrency = 32
	// restoreRetryLimit bounds how long a mutation is retried; restoreRetryPause is the pause between attempts.
	restoreRetryLimit = 30 * time.Second
	restoreRetryPause = 50 * time.Millisecond
)

// restoreRows writes the rows of a file with their original timestamps.
func (n *Node) restoreRows(ctx context.Context, table uint32, plain []byte) error {
	w := rowWriter{n: n, slots: make(chan struct{}, restoreConcurrency), failed: make(chan error, 1)}
	var m command.Mutation
	size := 0
	level := n.levelOf(n.metadata.State())
	err := eachRow(table, plain, func(p *parsedRecord) error {
		if err := writable(level, p.op.Operand); err != nil {
			return err
		}
		if m.Key != nil && (!bytes.Equal(m.Key, p.Key) || m.Token != p.Token || size >= restoreMutationBytes) {
			if err := w.write(ctx, m); err != nil {
				return err
			}
			m, size = command.Mutation{}, 0
		}
		if m.Key == nil {
			m = command.Mutation{Table: table, Token: p.Token, Low: p.Low, Key: append([]byte{}, p.Key...)}
		}
		m.Ops = append(m.Ops, p.op)
		size += len(p.op.Operand) + len(p.op.Clustering)
		return nil
	})
	if err == nil && m.Key != nil {
		err = w.write(ctx, m)
	}
	if failed := w.wait(); failed != nil {
		return failed
	}
	return err
}

// rowWriter writes a bounded number of mutations concurrently.
type rowWriter struct {
	n      *Node
	slots  chan struct{}
	failed chan error
}

func (w *rowWriter) write(ctx context.Context, m command.Mutation) error {
	select {
	case err := <-w.failed:
		w.failed <- err
		return err
	case w.slots <- struct{}{}:
	}
	go func() {
		defer func() { <-w.slots }()
		if err := w.n.writeWithIndexes(ctx, &m); err != nil {
			select {
			case w.failed <- err:
			default: // another error was first
			}
		}
	}()
	return nil
}

// wait returns when all mutations have been written, with the first error.
func (w *rowWriter) wait() error {
	for range cap(w.slots) {
		w.slots <- struct{}{}
	}
	select {
	case err := <-w.failed:
		return err
	default:
		return nil
	}
}
