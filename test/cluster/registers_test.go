// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkTime is the timeout of the search for a valid order of a history.
const checkTime = 2 * time.Minute

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
	key      int64
	do       action
	from, to int64
}

type output struct {
	unknown bool
	applied bool  // for swap and create
	value   int64 // for get, and for swap and create if they were not applied
}

func (in input) String() string {
	return [...]string{"get", fmt.Sprint("set ", in.to), "remove", fmt.Sprintf("swap %d for %d", in.from, in.to),
		fmt.Sprint("create ", in.to)}[in.do]
}

// registerTable returns the table of a register. The two tables have separate partitions, so the registers k and k^1
// are never in the same partition.
func registerTable(key int64) string { return [...]string{"load.registers", "load.twins"}[key&1] }

// text returns the statement for in.
func (in input) text() string {
	table := registerTable(in.key)
	switch in.do {
	case get:
		return fmt.Sprintf("SELECT v FROM %s WHERE k = %d", table, in.key)
	case set:
		return fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, %d)", table, in.key, in.to)
	case remove:
		return fmt.Sprintf("DELETE FROM %s WHERE k = %d", table, in.key)
	case swap:
		return fmt.Sprintf("UPDATE %s SET v = %d WHERE k = %d IF v = %d", table, in.to, in.key, in.from)
	}
	return fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, %d) IF NOT EXISTS", table, in.key, in.to)
}

// together returns the LOGGED batch for several inputs.
func together(ins ...input) string {
	b := "BEGIN BATCH "
	for _, in := range ins {
		b += in.text() + "; "
	}
	return b + "APPLY BATCH"
}

// registers is the specification. A register holds one value, and every operation takes effect at one point between
// its call and its return. An operation with an unknown outcome takes effect at one point after its call, or never.
var registers = porcupine.NondeterministicModel{
	Init: func() []any { return []any{int64(absent)} },
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		at := map[int64]int{}
		var parts [][]porcupine.Operation
		for _, op := range ops {
			k := op.Input.(input).key
			i, ok := at[k]
			if !ok {
				i, parts = len(parts), append(parts, nil)
				at[k] = i
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Step: func(state, in, out any) []any { return step(state.(int64), in.(input), out.(output)) },
	DescribeOperation: func(in, out any) string {
		o := out.(output)
		return fmt.Sprintf("%v -> applied %v, value %d, unknown %v", in, o.applied, o.value, o.unknown)
	},
}

func step(state int64, in input, out output) []any {
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

// history collects the operations on registers.
type history struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

func (h *history) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if op.Output.(output).unknown {
		op.Return = math.MaxInt64 // the operation may take effect at any later time
	}
	h.ops = append(h.ops, op)
}

func (h *history) check(t testing.TB) {
	t.Helper()
	began := time.Now()
	model := registers.ToModel()
	switch result, info := porcupine.CheckOperationsVerbose(model, h.ops, checkTime); result {
	case porcupine.Illegal:
		path := filepath.Join(t.ArtifactDir(), "history.html")
		t.Errorf("no order explains the results of %d operations on registers: see %s (%v)", len(h.ops), path,
			porcupine.VisualizePath(model, info, path))
	case porcupine.Unknown:
		t.Errorf("no order of %d operations found in %s", len(h.ops), checkTime)
	default:
		t.Logf("%d operations on registers: linearizable (checked in %s)", len(h.ops),
			time.Since(began).Round(time.Millisecond))
	}
}
