// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// copied converts the rows of a read into mutations of another table.
type copied struct {
	table uint32
	tok   token.Token
	key   []byte
	out   []command.Mutation
}

func (c *copied) Partition(tok token.Token, key []byte, _ *row.Row) (command.Step, error) {
	c.tok, c.key = tok, append([]byte{}, key...)
	return command.More, nil
}

func (c *copied) Row(clustering []byte, r *row.Row) (command.Step, error) {
	var b row.Builder
	b.Reset(r.Liveness.Timestamp)
	b.Live(0, row.NoExpiry)
	for _, cell := range r.Cells {
		b.Cell(cell.Column, append([]byte(nil), cell.Path...), append([]byte{}, cell.Value...), 0, row.NoExpiry)
	}
	c.out = append(c.out, command.Mutation{Table: c.table, Token: c.tok, Key: c.key, Ops: []command.Op{{
		Kind: command.OpRow, Clustering: append([]byte{}, clustering...), Operand: b.Append(nil)}}})
	return command.More, nil
}

// TestRestoredContainer checks that the items of a container are unavailable during a restore. The restore must wait
// until the indexes of its unique keys are complete. If a client replaces a container that is being restored, the
// restore must not use the client's container.
func TestRestoredContainer(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/slot"]}]}}`)
	for i := range 60 {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%d","k":"%d","slot":1}`, i, i)))
	}
	from := n.metadata.State()
	o := archive.Restore{Backup: "b", Tables: []archive.RestoredTable{{Keyspace: s.c.Database.Keyspace(), Name: "c",
		NewKeyspace: s.c.Database.Keyspace(), NewName: "copy"}}}
	if _, err := n.newRestorer().CreateTables(t.Context(), from, &o); err != nil {
		t.Fatal(err)
	}
	restored := func() *items {
		t.Helper()
		c, err := n.Containers.ContainerByName(s.c.Database.Keyspace(), "copy")
		if err != nil {
			t.Fatal(err)
		}
		return &items{t, n, c}
	}
	unusable := func(c *container.Container) {
		t.Helper()
		for name, do := range map[string]func() error{
			"create": func() error {
				ops := []container.Operation{create(`{"id":"x","k":"1","slot":1}`)}
				_, err := n.Containers.Do(t.Context(), c, nil, ops, container.RequestOptions{})
				return err
			},
			"read": func() error {
				_, _, err := n.Containers.Read(t.Context(), c, key("1"), "1", "", container.RequestOptions{})
				return err
			},
			"query": func() error {
				_, err := n.Containers.Query(t.Context(), c, &container.QueryRequest{Text: "SELECT * FROM c",
					Scope: container.Scope{Key: key("1")}})
				return err
			},
			"feed": func() error {
				_, err := n.Containers.Feed(t.Context(), c, container.Scope{}, "", 1, container.RequestOptions{})
				return err
			},
			"changes": func() error {
				_, err := n.Containers.Changes(t.Context(), c, &container.ChangesRequest{})
				return err
			},
			"delete all": func() error {
				_, err := n.Containers.DeleteKey(t.Context(), c, key("1"), container.RequestOptions{})
				return err
			},
		} {
			if err := do(); err == nil || container.StatusOf(err) != 503 {
				t.Errorf("%s while it is restored: %v", name, err)
			}
		}
	}
	unusable(restored().c)
	rows := &copied{table: o.Tables[0].NewID}
	if err := n.coordinator.Read(t.Context(), &command.Read{Table: o.Tables[0].OldID, Range: token.Full,
		Level: dberr.Quorum, Now: time.Now().Unix()}, rows); err != nil {
		t.Fatal(err)
	}
	if len(rows.out) != 60 {
		t.Fatalf("%d rows were copied", len(rows.out))
	}
	for i := range rows.out {
		done := make(command.OutcomeChannel, 1)
		n.coordinator.Write(t.Context(), rows.out[i:i+1], coordinator.WriteOptions{Level: dberr.Quorum}, done)
		if err := (<-done).Err; err != nil {
			t.Fatal(err)
		}
	}
	unusable(restored().c)
	if err := n.newRestorer().Finish(t.Context(), from, &o); err != nil {
		t.Fatal(err)
	}
	copied := restored()
	for i := range 60 {
		k := fmt.Sprint(i)
		copied.want(409, key(k), create(fmt.Sprintf(`{"id":"other","k":"%s","slot":1}`, k)))
	}

	again := archive.Restore{Backup: "b2", Tables: []archive.RestoredTable{{Keyspace: s.c.Database.Keyspace(),
		Name: "c", NewKeyspace: s.c.Database.Keyspace(), NewName: "mine"}}}
	if _, err := n.newRestorer().CreateTables(t.Context(), from, &again); err != nil {
		t.Fatal(err)
	}
	half, err := n.Containers.ContainerByName(s.c.Database.Keyspace(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	unusable(half)
	if err := n.Containers.DeleteContainer(t.Context(), half, ""); err != nil {
		t.Fatal(err)
	}
	// Add a setting that an earlier build could leave behind.
	if _, err := n.metadata.Update(t.Context(), func(m *meta.State) (*meta.State, error) {
		return m.WithSetting(meta.RestoreSetting(s.c.Database.Keyspace(), "mine"), "b2"), nil
	}); err != nil {
		t.Fatal(err)
	}
	mine := newContainer(t, n, `{"id":"mine","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	mine.want(201, nil, create(`{"id":"1","k":"a"}`))
	if _, err := n.newRestorer().CreateTables(t.Context(), from, &again); err == nil {
		t.Error("a restore used the container of a client")
	}
}
