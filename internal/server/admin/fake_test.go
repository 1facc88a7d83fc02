// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/control/advise"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// fakeNode is a node whose only data is the word secret. It records the executed commands.
type fakeNode struct {
	err     error    // result of Err
	reached []string // executed commands and reads of the status
}

func (f *fakeNode) Err() error { return f.err }

func (f *fakeNode) Status() Status {
	f.reached = append(f.reached, "status")
	return Status{Cluster: "secret"}
}

func (f *fakeNode) StatusWithoutKeys() Status {
	f.reached = append(f.reached, "status")
	return Status{Cluster: "public"}
}

func (f *fakeNode) History() []ChangeStatus { return nil }

func (f *fakeNode) ShowUsage(context.Context, string, bool) []TableUsage {
	return []TableUsage{{Name: "secret"}}
}

func (f *fakeNode) Users(context.Context) []usage.User { return nil }

func (f *fakeNode) Table(context.Context, string) (*TableReport, error) {
	return &TableReport{Name: "secret"}, nil
}

func (f *fakeNode) Ring() []catalog.RingNode { return []catalog.RingNode{{Node: "secret"}} }

func (f *fakeNode) Advise(context.Context, string) ([]advise.Report, error) {
	return []advise.Report{{Table: "secret"}}, nil
}

func (f *fakeNode) Endpoints(_ context.Context, table string, key []string) (catalog.Endpoints, error) {
	if table != "sec.ret" || strings.Join(key, "|") != "k|l" {
		return catalog.Endpoints{}, fmt.Errorf("table %s, key %q", table, key)
	}
	return catalog.Endpoints{Table: "secret"}, nil
}

func (f *fakeNode) ListSessions(context.Context, int) catalog.Sessions {
	return catalog.Sessions{Sessions: []catalog.Session{{User: "secret"}}}
}

func (f *fakeNode) CancelSession(_ context.Context, id string) (string, error) {
	f.reached = append(f.reached, "cancel "+id)
	return "secret", nil
}

func (f *fakeNode) SlowQueries(context.Context) slowlog.Report {
	return slowlog.Report{Requests: []slowlog.Request{{Statement: "secret"}}}
}

func (f *fakeNode) SetState(_ context.Context, node string, to meta.NodeState) (string, error) {
	f.reached = append(f.reached, fmt.Sprintf("%s %s", node, to))
	return "ok", nil
}

func (f *fakeNode) Compact(context.Context) error {
	f.reached = append(f.reached, "compact")
	return nil
}

func (f *fakeNode) Checkpoint() (string, error) {
	f.reached = append(f.reached, "checkpoint")
	return "", nil
}

func (f *fakeNode) RaiseLevel(context.Context) (feature.Level, error) {
	f.reached = append(f.reached, "upgrade")
	return 0, nil
}
