// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// counts is a set of aggregations that count rows. enough is the number of rows after which an aggregation ends. If
// fails is set, the aggregation fails at this row.
type counts struct {
	enough int
	fails  bool
}

func (f counts) Aggregate(_ context.Context, c *command.Read) (Aggregation, error) {
	if string(c.Pushdown.Program) != "count" {
		return nil, ErrNoPushdown
	}
	return &count{counts: f}, nil
}

type count struct {
	counts
	rows int
}

func (f *count) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (f *count) Row([]byte, *row.Row) (command.Step, error) {
	switch f.rows++; {
	case f.rows != f.enough:
		return command.More, nil
	case f.fails:
		return command.Stop, errors.New("it fails")
	}
	return command.Stop, nil
}

func (f *count) Close() {}

func (f *count) Charge() ru.Units { return 0 }

func (f *count) Result() ([]byte, error) { return fmt.Append(nil, f.rows), nil }

// asker is a visitor that requests an aggregation.
type asker struct {
	rows    int
	got     []command.PushdownResult
	charged ru.Units
}

func (a *asker) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (a *asker) Row([]byte, *row.Row) (command.Step, error) {
	a.rows++
	return command.More, nil
}

func (a *asker) Charge(u ru.Units) { a.charged += u }

func (a *asker) PushedDown(f *command.PushdownResult) (command.Step, error) {
	own := *f
	own.Key, own.Result = append([]byte(nil), f.Key...), append([]byte(nil), f.Result...)
	a.got = append(a.got, own)
	return command.More, nil
}

// TestPushdown checks that a replica aggregates rows as requested and charges the price of the rows. It must stop at
// its own limits and at the reader's limits, and the next read must resume there. The replica must return rows if it
// does not know the program, if the caller cannot use a partial result, or if too many aggregations are running. A
// failed aggregation must return an error.
func TestPushdown(t *testing.T) {
	h := open(t, newStore(t), 1, Options{})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	const rows = 1200
	for i := range rows {
		if err := write(t.Context(), r, put(fmt.Sprint("k", i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(c command.Read) *asker {
		t.Helper()
		a := &asker{}
		c.Table = testTable
		if err := r.Read(t.Context(), &c, a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	offer := &command.Pushdown{Program: []byte("count")}
	plain := ask(command.Read{})
	if plain.rows != rows {
		t.Fatalf("%d rows", plain.rows)
	}
	passed := func(what string, a *asker) {
		t.Helper()
		if a.rows != rows || len(a.got) != 0 || a.charged != plain.charged {
			t.Errorf("%s: %d rows, %d answers, for %v", what, a.rows, len(a.got), a.charged)
		}
	}
	passed("before an aggregator is set", ask(command.Read{Pushdown: offer}))
	h.SetAggregator(counts{})
	passed("of another program", ask(command.Read{Pushdown: &command.Pushdown{Program: []byte("x")}}))
	h.pushdown.Store(pushdownsMax)
	passed("beside too many", ask(command.Read{Pushdown: offer}))
	h.pushdown.Store(0)

	whole := ask(command.Read{Pushdown: offer})
	if whole.rows != 0 || len(whole.got) != 1 || string(whole.got[0].Result) != fmt.Sprint(rows) ||
		whole.got[0].More || whole.got[0].Rows != rows || whole.charged != plain.charged {
		t.Errorf("all rows: %+v for %v, want %v", whole.got, whole.charged, plain.charged)
	}
	through := func(what string, c command.Read, reads int) {
		t.Helper()
		sum, n, charged := 0, 0, ru.Units(0)
		for more := true; more; n++ {
			a := ask(c)
			if len(a.got) != 1 || a.got[0].Failed || n > rows {
				t.Fatalf("%s: %+v", what, a.got)
			}
			f := &a.got[0]
			var part int
			_, _ = fmt.Sscan(string(f.Result), &part)
			sum, charged, more = sum+part, charged+a.charged, f.More
			c.Continued, c.AfterKey, c.AfterToken, c.AfterClustering = true, f.Key, f.Token, f.Clustering
			c.AfterPartition = f.AfterPartition || len(f.Clustering) == 0
		}
		if sum != rows || n != reads || charged != plain.charged {
			t.Errorf("%s: %d rows by %d reads for %v, want %d by %d for %v", what, sum, n, charged, rows, reads,
				plain.charged)
		}
	}
	through("by 500 rows", command.Read{Pushdown: &command.Pushdown{Program: offer.Program, Rows: 500}}, 3)
	h.SetAggregator(counts{enough: 300})
	through("as it has enough", command.Read{Pushdown: offer}, 5)
	h.SetAggregator(counts{})
	h.SetThroughputs(Throughputs{PerSecond: map[topology.PartitionID]int64{r.ID(): 1_000_000}})
	through("where the throughput is bounded", command.Read{Pushdown: offer}, 3)
	h.SetThroughputs(Throughputs{})
	h.SetAggregator(counts{enough: 10, fails: true})
	if a := ask(command.Read{Pushdown: offer}); len(a.got) != 1 || !a.got[0].Failed || a.rows != 0 {
		t.Errorf("an aggregation that fails: %+v", a.got)
	}
	if n := h.pushdown.Load(); n != 0 {
		t.Errorf("%d aggregations are still counted", n)
	}
}
