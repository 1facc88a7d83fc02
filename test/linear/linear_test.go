// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package linear tests linearizability. Many clients read and write a few registers through CQL. Some tests also kill
// the server. Porcupine then searches for an order of all operations that explains every response. No such order
// exists if a read returned a value that was later lost, or if two conflicting IF clauses succeeded.
package linear

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

var (
	rounds  = flag.Int("rounds", 3, "number of kills of the process")
	seconds = flag.Float64("seconds", 0.5, "duration of a round")
	clients = flag.Int("clients", 32, "number of clients")
	levels  = []dberr.Consistency{dberr.Quorum, dberr.Serial, dberr.One}
)

const (
	keys = 8
	// checkTime is the timeout of the search for an order.
	checkTime = 2 * time.Minute
)

func TestMain(m *testing.M) {
	process.Main(m)
}

// action is an operation of a client on a register.
type action uint8

const (
	get action = iota
	set
	remove
	swap   // UPDATE .. IF v = from
	create // INSERT .. IF NOT EXISTS
)

// absent is the value of a register without a row.
const absent = -1

type input struct {
	key      int
	do       action
	from, to int
}

// output is the response. The output is unknown if the connection broke before the response.
type output struct {
	unknown bool
	applied bool // for swap and create
	value   int  // for get, and for swap and create if they were not applied
}

func (in input) String() string {
	switch in.do {
	case get:
		return "get"
	case set:
		return fmt.Sprintf("set %d", in.to)
	case remove:
		return "remove"
	case swap:
		return fmt.Sprintf("swap %d for %d", in.from, in.to)
	}
	return fmt.Sprintf("create %d", in.to)
}

// registers is the specification. A register holds one value, and every operation takes effect at one point between
// its call and its return. An operation with an unknown outcome takes effect at one point before the process ended, or
// never.
var registers = porcupine.NondeterministicModel{
	Init: func() []any { return []any{absent} },
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, keys)
		for _, op := range history {
			k := op.Input.(input).key
			parts[k] = append(parts[k], op)
		}
		return parts
	},
	Step: func(state, in, out any) []any { return step(state.(int), in.(input), out.(output)) },
	DescribeOperation: func(in, out any) string {
		o := out.(output)
		return fmt.Sprintf("%v -> applied %v, value %d, unknown %v", in, o.applied, o.value, o.unknown)
	},
}

func step(state int, in input, out output) []any {
	applies := in.do == set || in.do == remove || in.do == swap && state == in.from && state != absent ||
		in.do == create && state == absent
	next := state
	switch {
	case !applies:
	case in.do == remove:
		next = absent
	default:
		next = in.to
	}
	conditional := in.do == swap || in.do == create
	switch {
	case out.unknown:
		return []any{state, next}
	case in.do == get && out.value != state,
		conditional && out.applied != applies,
		conditional && !applies && out.value != state:
		return nil
	}
	return []any{next}
}

// history collects operations.
type history struct {
	mu  sync.Mutex
	ops []porcupine.Operation
	// values makes every written value unique.
	values atomic.Int64
	began  time.Time
}

func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

func (h *history) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// end sets the end of operations with an unknown outcome to the time at which their process had ended. end must be
// called after each kill.
func (h *history) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for i := range h.ops {
		if op := &h.ops[i]; op.Output.(output).unknown && op.Return == 0 {
			op.Return = now
		}
	}
}

// client sends requests until its connection breaks or the time until is reached.
func (h *history) client(t *testing.T, c *rawclient.Conn, id int, until time.Time) {
	defer c.Close()
	rng := rand.New(rand.NewPCG(uint64(id), uint64(h.values.Load())))
	seen := [keys]int{}
	for time.Now().Before(until) {
		in := input{key: rng.IntN(keys), to: int(h.values.Add(1))}
		switch n := rng.IntN(20); {
		case n < 8:
			in.do = get
		case n < 11:
			in.do = set
		case n < 12:
			in.do = remove
		case n < 16:
			in.do, in.from = create, absent
		default:
			in.do, in.from = swap, seen[in.key]
		}
		op := porcupine.Operation{ClientId: id, Input: in, Call: h.now()}
		out, err := perform(c, in, levels[rng.IntN(len(levels))])
		op.Output, op.Return = out, h.now()
		if refused := (*cqlwire.Error)(nil); errors.As(err, &refused) && refused.Code != cqlwire.CodeUnavailable {
			t.Errorf("%v: %v", in, err)
			return
		}
		if err != nil && in.do == get {
			return
		}
		if err != nil {
			op.Output, op.Return = output{unknown: true}, 0
		}
		h.add(op)
		if err != nil {
			return
		}
		if in.do == get || !out.applied {
			seen[in.key] = out.value
		} else {
			seen[in.key] = in.to
		}
	}
}

// perform runs an operation. The consistency level applies to reads.
func perform(c *rawclient.Conn, in input, level dberr.Consistency) (output, error) {
	if in.do != get {
		level = dberr.Quorum
	}
	var text string
	switch in.do {
	case get:
		text = fmt.Sprintf("SELECT v FROM linear.t WHERE k = %d", in.key)
	case set:
		text = fmt.Sprintf("INSERT INTO linear.t (k, v) VALUES (%d, %d)", in.key, in.to)
	case remove:
		text = fmt.Sprintf("DELETE FROM linear.t WHERE k = %d", in.key)
	case swap:
		text = fmt.Sprintf("UPDATE linear.t SET v = %d WHERE k = %d IF v = %d", in.to, in.key, in.from)
	case create:
		text = fmt.Sprintf("INSERT INTO linear.t (k, v) VALUES (%d, %d) IF NOT EXISTS", in.key, in.to)
	}
	r, err := process.Query(c, level, text)
	if err != nil {
		return output{}, err
	}
	out := output{applied: true, value: absent}
	if in.do == set || in.do == remove {
		return out, nil
	}
	cells := r.Cells
	for i := 0; i < r.ColumnCount && r.RowCount == 1; i++ {
		n := int32(binary.BigEndian.Uint32(cells))
		cell := cells[4 : 4+max(n, 0)]
		cells = cells[4+len(cell):]
		switch r.Columns[i].Name {
		case "[applied]":
			out.applied = cell[0] == 1
		case "v":
			out.value = int(int32(binary.BigEndian.Uint32(cell)))
		}
	}
	return out, nil
}

// TestKill checks that single-key operations of a node in batch mode are linearizable across kills at any time. It
// covers all consistency levels of reads.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	h := &history{began: time.Now()}
	s := process.Start(t, dir)
	c := s.Dial(t)
	process.Do(t, c, "CREATE KEYSPACE linear WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE linear.t (k int PRIMARY KEY, v int)")
	c.Close()
	for range *rounds {
		var wg sync.WaitGroup
		until := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
		for id := range *clients {
			conn, err := rawclient.Dial(context.Background(), s.CQL, rawclient.Options{})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { h.client(t, conn, id, until.Add(time.Minute)) })
		}
		time.Sleep(time.Until(until)) // varies the progress of the clients
		s.Kill()
		wg.Wait()
		h.end()
		s = process.Start(t, dir)
	}
	var wg sync.WaitGroup
	for id := range *clients {
		conn := s.Dial(t)
		wg.Go(func() { h.client(t, conn, id, time.Now().Add(100*time.Millisecond)) })
	}
	wg.Wait()
	h.check(t)
}

func (h *history) check(t *testing.T) {
	t.Helper()
	began := time.Now()
	model := registers.ToModel()
	switch result, info := porcupine.CheckOperationsVerbose(model, h.ops, checkTime); result {
	case porcupine.Illegal:
		path := filepath.Join(t.ArtifactDir(), "history.html")
		t.Errorf("no order explains the %d results: see %s (%v)", len(h.ops), path,
			porcupine.VisualizePath(model, info, path))
	case porcupine.Unknown:
		t.Errorf("no order found in %s", checkTime)
	}
	if len(h.ops) < 100 {
		t.Errorf("only %d operations: the test checks nothing", len(h.ops))
	}
	t.Logf("%d operations, checked in %s", len(h.ops), time.Since(began))
}
