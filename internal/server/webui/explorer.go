// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// explorer is the client name of the web UI's explorer. It appears, for example, in the audit log.
const explorer = "Ilion page"

// explored is a completion for which a goroutine can wait.
type explored chan struct{}

// Completed implements session.Completer.
func (e explored) Completed() { close(e) }

// Explorer executes the statements of a user.
type Explorer interface {
	// Explore executes a statement with the permissions of a role. The role is empty if no login is required. If ctx
	// ends, the statement may still complete.
	Explore(ctx context.Context, role string, q Query) (*Answer, error)
}

// SessionExplorer executes each statement in a new session.
type SessionExplorer struct{ Engine *session.Engine }

// Explore implements Explorer.
func (e SessionExplorer) Explore(ctx context.Context, role string, q Query) (*Answer, error) {
	s := e.Engine.NewSession(session.Client{User: role, Version: 5, DriverName: explorer})
	defer s.Close()
	c := &session.Call{MayBlock: true, Request: session.Request{Version: 5, Text: []byte(q.Text),
		Keyspace: []byte(q.Keyspace), Consistency: dberr.LocalQuorum, Serial: dberr.Serial, PageSize: PageRows,
		PagingState: q.State}}
	done := make(explored)
	c.CompleteTo(done)
	if s.Query(ctx, c) == session.Pending {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, fmt.Errorf("statement timed out; its outcome is unknown: %w", ctx.Err())
		}
	}
	r := &c.Result
	if r.Err != nil {
		return nil, r.Err
	}
	out := &Answer{Warnings: r.Warnings, Units: r.Charge.Float(), Keyspace: r.Keyspace, Done: "Done."}
	switch r.Kind {
	case session.Rows:
		out.State = r.PagingState
		fillRows(out, r)
	case session.SetKeyspace:
		out.Done = "Statements are in keyspace " + r.Keyspace + " now."
	case session.SchemaChanged:
		out.Done = fmt.Sprintf("%s %s %s %s", r.Change.Change, r.Change.Target, r.Change.Keyspace, r.Change.Name)
	}
	return out, nil
}

// fillRows converts the cells of a result to text.
func fillRows(out *Answer, r *session.Result) {
	for i := range r.Metadata.Columns {
		out.Columns = append(out.Columns, r.Metadata.Columns[i].Name)
	}
	cells := r.Cells
	for range r.RowCount {
		row := make([]*string, len(out.Columns))
		for i := range row {
			size := int32(binary.BigEndian.Uint32(cells))
			if cells = cells[4:]; size < 0 {
				continue
			}
			text := r.Metadata.Columns[i].Type.Text(cells[:size])
			row[i], cells = &text, cells[size:]
		}
		out.Rows = append(out.Rows, row)
	}
}
