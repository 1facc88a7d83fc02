// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// keeper records the commands that an executor sends.
type keeper struct {
	*fixture
	sent []command.Conditional
}

func (k *keeper) Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions,
	done command.Completion) {
	for _, m := range ms {
		k.keep(&command.Conditional{Mutation: m})
	}
	k.fixture.Write(ctx, ms, o, done)
}

func (k *keeper) ConditionalWrite(ctx context.Context, c *command.Conditional, o coordinator.WriteOptions,
	done command.Completion) {
	k.keep(c)
	k.fixture.ConditionalWrite(ctx, c, o, done)
}

func (k *keeper) keep(c *command.Conditional) {
	var kept command.Conditional
	if err := command.DecodeConditional(&kept, command.AppendConditional(nil, c)); err != nil {
		panic(err)
	}
	k.sent = append(k.sent, kept)
}

// entriesIn returns sorted descriptions of the index entries of a mutation.
func entriesIn(m *command.Mutation) []string {
	var out []string
	for _, o := range m.Ops {
		if o.Kind == command.OpIndex {
			out = append(out, fmt.Sprintf("%d %x %x", o.Index, o.Clustering, o.Value))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestReplan checks that Replan adds the missing index entries to a part that was planned without indexes. The part
// must have the new table revision and the original row changes.
func TestReplan(t *testing.T) {
	w := newFixture(t)
	for _, text := range []string{
		"CREATE TABLE t (a int, b int, c int, v int, s int static, PRIMARY KEY ((a, b), c))",
		"CREATE TABLE col (k int PRIMARY KEY, l list<int>, st set<text>, mk map<text, int>, me map<text, int>, f frozen<set<int>>)",
		"CREATE INDEX av ON t (a)", "CREATE INDEX cv ON t (c)", "CREATE INDEX vv ON t (v)", "CREATE INDEX sv ON t (s)",
		"CREATE INDEX li ON col (l)", "CREATE INDEX si ON col (st)", "CREATE INDEX ki ON col (keys(mk))",
		"CREATE INDEX vi ON col (values(mk))",
		"CREATE INDEX ei ON col (entries(me))", "CREATE INDEX fi ON col (full(f))",
	} {
		w.mustDDL(t, text)
	}
	k := &keeper{fixture: w}
	w.executor = NewExecutor(k, Options{})
	for _, text := range []string{
		"INSERT INTO t (a, b, c, v, s) VALUES (1, 2, 3, 4, 5)", "UPDATE t SET v = 6 WHERE a = 1 AND b = 2 AND c = 3",
		"UPDATE t USING TIMESTAMP 7 AND TTL 9 SET v = 6 WHERE a = 1 AND b = 2 AND c = 3",
		"UPDATE t SET s = 6 WHERE a = 1 AND b = 2",
		"DELETE FROM t WHERE a = 1 AND b = 2 AND c = 3", "DELETE FROM t WHERE a = 1 AND b = 2",
		"INSERT INTO col (k, l, st, mk, me, f) VALUES (1, [1, 2], {'a'}, {'x': 1}, {'y': 2}, {3})",
		"UPDATE col SET l = l + [7], st = st + {'b'}, mk['z'] = 5, me = me + {'q': 9} WHERE k = 1",
		"UPDATE col SET l[0] = 8 WHERE k = 1", "UPDATE col SET st = st - {'b'}, l = l - [7] WHERE k = 1",
	} {
		if o := w.execute(text, w.request()); o.Err != nil {
			t.Fatalf("%s: %v", text, o.Err)
		}
		if len(k.sent) != 1 {
			t.Fatalf("%s: %d were sent", text, len(k.sent))
		}
		c := k.sent[0]
		k.sent = nil
		planned := entriesIn(&c.Mutation)
		bare := slices.DeleteFunc(slices.Clone(c.Mutation.Ops), func(o command.Op) bool {
			return o.Kind == command.OpIndex
		})
		c.Mutation.Ops, c.Mutation.SchemaVersion = slices.Clone(bare), 1
		before := command.AppendMutation(nil, &command.Mutation{Ops: bare})
		if err := Replan(w.catalog.Snapshot(), &c); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(planned, entriesIn(&c.Mutation)); diff != "" {
			t.Errorf("%s (-planned +planned anew):\n%s", text, diff)
		}
		if want := w.catalog.Snapshot().TableByID(c.Mutation.Table).Revision; c.Mutation.SchemaVersion != want {
			t.Errorf("%s: revision %d, want %d", text, c.Mutation.SchemaVersion, want)
		}
		if after := command.AppendMutation(nil,
			&command.Mutation{Ops: c.Mutation.Ops[:len(bare)]}); !bytes.Equal(before, after) {
			t.Errorf("%s: its operands have changed", text)
		}
	}
	if err := Replan(schema.New(), &command.Conditional{Mutation: command.Mutation{Table: 1}}); !errors.Is(err,
		coordinator.ErrUnknownTable) {
		t.Errorf("a table that is gone: %v", err)
	}
}
