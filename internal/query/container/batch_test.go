// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// failingReader is a coordinator that returns a preset decision and rejects reads.
type failingReader struct {
	topology *topology.Snapshot
	answer   answer
	// reads counts the rejected reads. The first busy reads fail because the partition has no request units left.
	reads, busy int
}

func (d *failingReader) Read(context.Context, *command.Read, command.Visitor) error {
	if d.reads++; d.reads <= d.busy {
		return &dberr.Overloaded{RetryAfter: time.Millisecond}
	}
	return &dberr.Unavailable{}
}

func (d *failingReader) ConditionalWrite(_ context.Context, _ *command.Conditional, _ coordinator.WriteOptions,
	done command.Completion) {
	done.Done(command.Decided(&command.CASResult{Applied: true, Result: d.answer.append(nil)}, 0))
}

func (d *failingReader) Topology() *topology.Snapshot { return d.topology }

func (d *failingReader) Spend(uint32, token.Token, []byte, fairshare.Principal, ru.Units) {}

// TestWhatIsDoneIsNotRefused checks that a client does not receive a retryable error for executed operations. In the
// test, the answer to the repeated request contains no bodies, and the bodies cannot be read.
func TestWhatIsDoneIsNotRefused(t *testing.T) {
	d, bad := ParseDefinition([]byte(`{"id":"c","partitionKey":{"paths":["/k"]}}`))
	if bad != nil {
		t.Fatal(bad)
	}
	s := schema.New()
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Name: "d", Properties: replication, Database: &schema.Database{ID: "d"}},
		&schema.CreateContainer{Keyspace: "d", Name: "c", ID: schema.UUID{1},
			Container: schema.Container{ID: "c", Paths: d.Paths, Scheme: d.Hash, Definition: d.JSON}},
	} {
		var err error
		if s, _, err = schema.Apply(s, c); err != nil {
			t.Fatal(err)
		}
	}
	m, err := topology.New().AddTable(s.Table("d", "c").ID, 1, []topology.Place{{Nodes: []topology.NodeID{{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	done := outcome{status: 200, id: "a", there: true, stored: stored{etag: uuid.UUID{1}}}
	at := &failingReader{topology: m, answer: answer{failed: -1, of: []outcome{done}}, busy: 2}
	e := New(Options{Catalog: catalog.New(s, func() catalog.NodeInfo { return catalog.NodeInfo{} }), Coordinator: at})
	db, err := e.Database("d")
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Container(db, "c")
	if err != nil {
		t.Fatal(err)
	}
	key := epk.Key{epk.Text("k")}
	patch := []Operation{{Kind: Patch, ID: "a", Body: []byte(`[{"op":"incr","path":"/n","value":1}]`)}}
	if _, err := e.Do(t.Context(), c, key, patch, RequestOptions{}); StatusOf(err) != 408 {
		t.Errorf("a patch that was done: %v", err)
	}
	if at.reads != 3 {
		t.Errorf("it was read %d times: while there is no budget it is waited for", at.reads)
	}
	if _, err := e.Do(t.Context(), c, key, []Operation{{Kind: Read, ID: "a"}}, RequestOptions{}); StatusOf(err) != 503 {
		t.Errorf("a read: %v", err)
	}
}
