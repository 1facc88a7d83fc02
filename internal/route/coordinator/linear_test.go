// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// register describes an operation on one key. A read returned to, a write wrote to, and a swap replaced from with to.
type register struct {
	key      int
	kind     byte // 'r', 'w', or 's'
	from, to int64
	// applied reports whether a swap was applied. unknown marks a write or a swap with an unknown outcome.
	applied, unknown bool
}

// registers is the specification of a register with the initial value 0.
var registers = porcupine.NondeterministicModel{
	Init: func() []any { return []any{int64(0)} },
	Step: func(state, in, _ any) []any {
		r, now := in.(register), state.(int64)
		next := now
		if r.kind == 'w' || r.kind == 's' && now == r.from {
			next = r.to
		}
		switch {
		case r.unknown:
			return []any{now, next}
		case r.kind == 'r' && r.to != now, r.kind == 's' && r.applied != (now == r.from):
			return nil
		}
		return []any{next}
	},
	DescribeOperation: func(in, _ any) string { return fmt.Sprintf("%+v", in) },
}

// journal collects the operations on each key.
type journal struct {
	mu    sync.Mutex
	ops   map[int][]porcupine.Operation
	began time.Time
	next  atomic.Int64
}

func newJournal() *journal { return &journal{ops: map[int][]porcupine.Operation{}, began: time.Now()} }

func (j *journal) now() int64 { return time.Since(j.began).Nanoseconds() }

// add records an operation. An operation with an unknown outcome never ends.
func (j *journal) add(client int, r register, call int64) {
	at := j.now()
	if r.unknown {
		at = int64(1) << 60
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ops[r.key] = append(j.ops[r.key], porcupine.Operation{ClientId: client, Input: r, Call: call, Return: at})
}

// check fails the test for every key whose operations cannot be linearized.
func (j *journal) check(t *testing.T) {
	t.Helper()
	wrong, model := 0, registers.ToModel()
	for key, ops := range j.ops {
		if result := porcupine.CheckOperationsTimeout(model, ops, time.Minute); result != porcupine.Ok {
			wrong++
			t.Logf("key %d, %d operations: %s", key, len(ops), result)
		}
	}
	if wrong > 0 {
		t.Errorf("the responses of %d of %d keys are not linearizable", wrong, len(j.ops))
	}
}

func keyName(key int) string { return fmt.Sprint("key", key) }

// swapOf returns a conditional write that sets the value to to if the current value is from.
func swapOf(key string, from, to int64) *command.Conditional {
	return &command.Conditional{
		Mutation: put(key, "c", to), Serial: dberr.Serial, Rows: []command.RowRef{{Clustering: []byte("c")}},
		Now: time.Now().Unix(),
		Conditions: []command.Condition{{
			Operator: command.Equal, Column: 1, Type: &cqltype.Type{Kind: cqltype.Bigint},
			Values: [][]byte{binary.BigEndian.AppendUint64(nil, uint64(from))},
		}},
	}
}

func swapNow(c *Coordinator, cond *command.Conditional) (bool, error) {
	done := make(command.OutcomeChannel, 1)
	c.ConditionalWrite(context.Background(), cond, WriteOptions{Type: "CAS", Level: dberr.Quorum}, done)
	o := <-done
	return o.Err == nil && o.CAS.Applied, o.Err
}

func valueOf(c *Coordinator, key string) (v int64, err error) {
	q := command.Read{Table: table, Key: []byte(key), Token: token.Hash([]byte(key)), Now: 1, Level: dberr.Quorum}
	err = c.Read(context.Background(), &q, cells(func(r *row.Row) {
		v = int64(binary.BigEndian.Uint64(r.Cells[0].Value))
	}))
	return v, err
}

// apart reports whether two keys are in different physical partitions.
func apart(c *Coordinator, a, b int) bool {
	place := func(key int) any {
		k := []byte(keyName(key))
		return c.Topology().Locate(table, token.Hash(k), k).ID
	}
	return place(a) != place(b)
}

// work executes n operations. The operations are reads, swaps, and batches that write two keys in different partitions.
func (j *journal) work(t *testing.T, c *Coordinator, client, keys, n int) {
	rng := rand.New(rand.NewPCG(uint64(client), 1))
	seen := make([]int64, keys)
	for range n {
		k := rng.IntN(keys)
		r, call := register{key: k, to: j.next.Add(1)}, j.now()
		switch rng.IntN(4) {
		case 0:
			v, err := valueOf(c, keyName(k))
			if err != nil {
				continue
			}
			r.kind, r.to, seen[k] = 'r', v, v
		case 1:
			o := rng.IntN(keys)
			if !apart(c, k, o) {
				continue
			}
			err := writeNow(
				c,
				WriteOptions{Atomic: true, Level: dberr.Quorum, Type: "BATCH"},
				put(keyName(k), "c", r.to),
				put(keyName(o), "c", r.to),
			)
			r.kind, r.unknown = 'w', err != nil
			other := r
			other.key = o
			j.add(client, other, call)
			seen[k], seen[o] = r.to, r.to
		default:
			r.kind, r.from = 's', seen[k]
			if r.from == 0 { // the row may not exist yet
				continue
			}
			var err error
			r.applied, err = swapNow(c, swapOf(keyName(k), r.from, r.to))
			if r.unknown = err != nil; r.applied {
				seen[k] = r.to
			}
		}
		j.add(client, r, call)
	}
}

// TestBatchesAndConditionsAreLinearizable checks logged batches of two partitions, conditional writes, and reads of
// single keys. For each key, the operations must be linearizable.
func TestBatchesAndConditionsAreLinearizable(t *testing.T) {
	all := newCluster4(t, 4)
	const keys, clients = 8, 12
	j := newJournal()
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() { j.work(t, all[client%len(all)].Coordinator, client, keys, 150) })
	}
	wg.Wait()
	j.check(t)
}
