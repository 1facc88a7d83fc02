// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// programs contains the programs of the tests as functions. The text of a program is the name of the function.
type programs map[string]func(ctx context.Context, t *Txn) ([]byte, error)

func (p programs) Program(_ context.Context, c *command.Conditional) (Program, error) {
	run, ok := p[string(c.Program)]
	if !ok {
		return nil, errors.New("no such program")
	}
	return program(run), nil
}

type program func(ctx context.Context, t *Txn) ([]byte, error)

func (p program) Run(ctx context.Context, t *Txn) ([]byte, error) { return p(ctx, t) }

// transaction runs a program on a key.
func transaction(key, program string) *command.Conditional {
	k := []byte(key)
	return &command.Conditional{Mutation: command.Mutation{Table: testTable, Token: token.Hash(k), Key: k},
		Program: []byte(program)}
}

// balances collects column 1 of the rows of a logical partition.
type balances map[string]int64

func (b balances) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (b balances) Row(clustering []byte, r *row.Row) (command.Step, error) {
	b[string(clustering)] = int64(binary.BigEndian.Uint64(r.Cell(1).Value))
	return command.More, nil
}

// all reads all rows of the transaction's logical partition.
func all(ctx context.Context, t *Txn) (balances, error) {
	b := balances{}
	m := &t.c.Mutation
	return b, t.Read(ctx, &command.Read{Table: m.Table, Token: m.Token, Key: m.Key}, b)
}

// set stages a write of column 1 of a row.
func set(ctx context.Context, t *Txn, clustering string, v int64) error {
	m := put(string(t.c.Mutation.Key), v)
	m.Ops[0].Clustering = []byte(clustering)
	return t.Stage(ctx, &command.Conditional{Mutation: *m})
}

// transfer moves 1 from the richest row to row "b", and increments row "n".
func transfer(ctx context.Context, t *Txn) ([]byte, error) {
	b, err := all(ctx, t)
	if err != nil {
		return nil, err
	}
	richest := "a"
	for row, v := range b {
		if row != "n" && (v > b[richest] || v == b[richest] && row < richest) {
			richest = row
		}
	}
	to := map[bool]string{true: "b", false: "a"}[richest == "a"]
	for row, v := range map[string]int64{richest: b[richest] - 1, to: b[to] + 1, "n": b["n"] + 1} {
		if err := set(ctx, t, row, v); err != nil {
			return nil, err
		}
	}
	return wire(b["n"] + 1), nil
}

// opening stages the initial balances of the transfers.
func opening(ctx context.Context, t *Txn) ([]byte, error) {
	return nil, errors.Join(set(ctx, t, "a", 1000), set(ctx, t, "b", 0), set(ctx, t, "n", 0))
}

// rows reads the rows of a key outside any transaction.
func rows(t testing.TB, r *Replica, key string) balances {
	t.Helper()
	b := balances{}
	if err := r.Read(t.Context(), &command.Read{Table: testTable, Token: token.Hash([]byte(key)), Key: []byte(key)},
		b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTransactionsAreSerial checks that each of several concurrent transactions of one key sees the result of the
// previous transaction in all rows that it reads. Blind writers and readers of the key run concurrently. Readers must
// never see a partially applied transaction.
func TestTransactionsAreSerial(t *testing.T) {
	h := open(t, newStore(t), 1, Options{})
	defer closeHost(t, h)
	h.SetPrograms(programs{"opening": opening, "transfer": transfer})
	r := h.Replicas()[0]
	if _, err := decide(t.Context(), r, transaction("k", "opening")); err != nil {
		t.Fatal(err)
	}
	const lanes, each = 8, 50
	var clients, readers sync.WaitGroup
	stop := make(chan struct{})
	readers.Go(func() {
		for {
			if b := rows(t, r, "k"); b["a"]+b["b"] != 1000 {
				t.Errorf("a reader sees %v", b)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	readers.Go(func() {
		for {
			m := put("k", 0)
			// This row has a lower balance than a and b, and is among the rows that transfers read.
			m.Ops[0].Clustering = []byte("z")
			if err := write(t.Context(), r, m); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	seen := make(chan int64, lanes*each)
	for range lanes {
		clients.Go(func() {
			for range each {
				d, err := decide(t.Context(), r, transaction("k", "transfer"))
				if err != nil || !d.Applied {
					t.Errorf("transfer: %+v, %v", d, err)
					return
				}
				seen <- int64(binary.BigEndian.Uint64(d.Result))
			}
		})
	}
	clients.Wait()
	close(stop)
	readers.Wait()
	counted := map[int64]bool{}
	for range len(seen) {
		counted[<-seen] = true
	}
	b := rows(t, r, "k")
	if b["n"] != lanes*each || len(counted) != lanes*each || b["a"]+b["b"] != 1000 {
		t.Fatalf("%d transfers left %v and returned %d different numbers", lanes*each, b, len(counted))
	}
}

// TestTransactionIsRepeated checks that a repeated transaction is not run again and returns the same result. The test
// includes a retry on another leader after a crash.
func TestTransactionIsRepeated(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	for i := range w.nodes {
		w.replica(i, p.ID).host.SetPrograms(programs{"opening": opening, "transfer": transfer})
	}
	send := func(name string, id command.DedupeID) *command.CASResult {
		t.Helper()
		var d *command.CASResult
		err := w.request(p.ID, func(r *Replica, try func(*command.Mutation)) (err error) {
			c := transaction("k", name)
			c.Mutation.Dedupe = id
			try(&c.Mutation)
			d, err = decide(context.Background(), r, c)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	send("opening", w.dedupe())
	id := w.dedupe()
	first := send("transfer", id)
	lead := w.leader(p.ID)
	w.crash(lead)
	again := send("transfer", id)
	if !again.Applied || !bytes.Equal(again.Result, first.Result) || again.Charge != first.Charge {
		t.Fatalf("the first attempt returned %+v, the second one %+v", first, again)
	}
	w.start(lead)
	w.replica(lead, p.ID).host.SetPrograms(programs{"transfer": transfer})
	if b := rows(t, w.replica(w.leader(p.ID), p.ID), "k"); b["n"] != 1 || b["a"] != 999 || b["b"] != 1 {
		t.Fatalf("the rows are %v", b)
	}
	w.same(p.ID, 0, 1, 2)
}

// largeProgram is the name of a program with a large result. Only the beginning of this result is stored.
type largeProgram struct{ program }

func (largeProgram) ResultBytesMax() int { return 100 }

func (largeProgram) Brief() []byte { return []byte("brief") }

// largePrograms contains one program, whose result has as many bytes as the program's text.
type largePrograms struct{}

func (largePrograms) Program(_ context.Context, c *command.Conditional) (Program, error) {
	text := bytes.Clone(c.Program)
	return largeProgram{func(ctx context.Context, t *Txn) ([]byte, error) { return text, set(ctx, t, "a", 1) }}, nil
}

// TestLargeResultsAreKeptBriefly checks that a program's large result reaches the client unchanged. For a repeated
// request, a large result must be stored in a short form, and a small result completely. If the result exceeds the
// limit, no data must be written.
func TestLargeResultsAreKeptBriefly(t *testing.T) {
	h := open(t, newStore(t), 1, Options{Transactions: TransactionBounds{ResultBytes: 10}})
	defer closeHost(t, h)
	h.SetPrograms(largePrograms{})
	for i, length := range []int{5, 50, 500} {
		c := transaction(fmt.Sprint(length), strings.Repeat("x", length))
		c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: uint64(i + 1)}
		first, err := decide(t.Context(), h.Replicas()[0], c)
		if length == 500 {
			if err == nil || len(rows(t, h.Replicas()[0], "500")) > 0 {
				t.Errorf("a result above the bound: %+v, %v", first, err)
			}
			continue
		}
		if err != nil || len(first.Result) != length {
			t.Fatalf("%d bytes: %+v, %v", length, first, err)
		}
		want := string(first.Result)
		if length > 10 {
			want = "brief"
		}
		if again, err := decide(t.Context(), h.Replicas()[0], c); err != nil || string(again.Result) != want {
			t.Errorf("%d bytes, repeated: %+v, %v", length, again, err)
		}
	}
}

// TestTransactionBounds checks that a transaction that exceeds a limit, fails, or leaves its logical partition has no
// effect. There are limits on reads, changes, results, time, and cost. The error must name the reason, even if the
// program ignores the error.
func TestTransactionBounds(t *testing.T) {
	h := open(t, newStore(t), 1, Options{Transactions: TransactionBounds{Rows: 3, Bytes: 1000, ResultBytes: 10,
		Changes: 4, Time: 20 * time.Millisecond}})
	defer closeHost(t, h)
	change := func(next program) program {
		return func(ctx context.Context, t *Txn) ([]byte, error) {
			if err := set(ctx, t, "a", -1); err != nil {
				return nil, err
			}
			result, _ := next(ctx, t)
			return result, nil
		}
	}
	h.SetPrograms(programs{
		"rows": change(func(ctx context.Context, t *Txn) ([]byte, error) { _, err := all(ctx, t); return nil, err }),
		"changes": change(func(ctx context.Context, t *Txn) ([]byte, error) {
			for i := range 5 {
				_ = set(ctx, t, fmt.Sprint(i), 0)
			}
			return nil, nil
		}),
		"result": change(func(context.Context, *Txn) ([]byte, error) { return make([]byte, 11), nil }),
		"time": func(ctx context.Context, t *Txn) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"leave": change(func(ctx context.Context, t *Txn) ([]byte, error) {
			return nil, t.Stage(ctx, &command.Conditional{Mutation: *put("other", 1)})
		}),
		"fail": func(ctx context.Context, t *Txn) ([]byte, error) {
			return nil, errors.Join(errors.New("thrown"), set(ctx, t, "a", -1))
		},
		"costly": change(func(ctx context.Context, t *Txn) ([]byte, error) { return nil, nil }),
	})
	r := h.Replicas()[0]
	for i := range 4 {
		m := put("k", int64(i))
		m.Ops[0].Clustering = []byte{'a' + byte(i)}
		if err := write(t.Context(), r, m); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"rows":    "reads more than 3 rows",
		"changes": "changes more than 4 rows",
		"result":  "returns 11 bytes, but only 10",
		"time":    "took longer than 20ms",
		"leave":   "cannot reach 0x6f74686572",
		"fail":    "thrown",
		"costly":  "at least 5 request units, but only 4 are",
	} {
		c := transaction("k", name)
		if name == "costly" {
			c.MaxCharge = int64(4 * ru.Unit)
		}
		if _, err := decide(t.Context(), r, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if b := rows(t, r, "k"); b["a"] != 0 || len(b) != 4 {
			t.Errorf("%s left %v", name, b)
		}
	}
}

// TestTransactionPrice checks that a transaction costs its reads at SERIAL and its changes. A dry run must return this
// cost, must be charged only for its reads, and must change nothing.
func TestTransactionPrice(t *testing.T) {
	h := open(t, newStore(t), 1, Options{})
	defer closeHost(t, h)
	h.SetPrograms(programs{"opening": opening, "transfer": transfer})
	r := h.Replicas()[0]
	d, err := decide(t.Context(), r, transaction("k", "opening"))
	if err != nil || d.Charge != int64(3*ru.WriteRow) {
		t.Fatalf("three rows cost %v, %v", ru.Units(d.Charge), err)
	}
	reads := ru.Serial * (ru.PointRead + 3*ru.ReadRow)
	dry := transaction("k", "transfer")
	dry.Dry = true
	if d, err = decide(t.Context(), r, dry); err != nil {
		t.Fatal(err)
	}
	told, _ := binary.Uvarint(d.Result)
	if ru.Units(told) != reads+3*ru.WriteRow || ru.Units(d.Charge) != reads || d.Applied {
		t.Fatalf("dry run: reported %v, cost %v", ru.Units(told), ru.Units(d.Charge))
	}
	if b := rows(t, r, "k"); b["n"] != 0 {
		t.Fatalf("dry run: wrote %v", b)
	}
	if d, err = decide(t.Context(), r, transaction("k", "transfer")); err != nil || uint64(d.Charge) != told {
		t.Fatalf("cost %v, reported cost %v: %v", ru.Units(d.Charge), ru.Units(told), err)
	}
}

// TestTransactionOverClientTimestamps checks that the writes of a transaction are visible although a client has written
// with a future timestamp (P11). The same applies to conditions.
func TestTransactionOverClientTimestamps(t *testing.T) {
	h := open(t, newStore(t), 1, Options{})
	defer closeHost(t, h)
	h.SetPrograms(programs{"set": func(ctx context.Context, t *Txn) ([]byte, error) { return nil, set(ctx, t, "", 2) }})
	r := h.Replicas()[0]
	m := put("k", 1)
	stampAll(m, time.Now().Add(time.Hour).UnixMicro())
	m.Timestamp = 0
	if err := write(t.Context(), r, m); err != nil {
		t.Fatal(err)
	}
	if _, err := decide(t.Context(), r, transaction("k", "set")); err != nil {
		t.Fatal(err)
	}
	if v, _ := read(t, r, "k"); v != 2 {
		t.Fatalf("the transaction wrote 2, the row has %d", v)
	}
}

// TestPanickingTransaction checks that a program that panics ends with an error. A panic at any place under the latch
// of a logical partition must release the latch.
func TestPanickingTransaction(t *testing.T) {
	var panics atomic.Bool
	quiet := slog.New(slog.DiscardHandler)
	h := open(t, newStore(t), 1, Options{LatchWait: time.Minute, Log: quiet, Clock: testClock(func() time.Time {
		if panics.Load() && strings.Contains(string(debug.Stack()), "panicking(") {
			panic("a clock that panics") // only for the requests of this test
		}
		return time.Now()
	})})
	defer closeHost(t, h)
	h.SetPrograms(programs{"open": opening, "panic": func(ctx context.Context, t *Txn) ([]byte, error) {
		if err := set(ctx, t, "a", 5); err != nil {
			return nil, err
		}
		panic("a fault")
	}})
	r := h.Replicas()[0]
	for range 2 {
		d, err := decide(t.Context(), r, transaction("k", "panic"))
		if err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Fatalf("a program that panics: %+v, %v", d, err)
		}
	}
	if got := rows(t, r, "k"); len(got) > 0 {
		t.Errorf("a program that panics has written %v", got)
	}
	panics.Store(true)
	for _, request := range []func() error{
		func() error { return r.ConditionalWrite(t.Context(), transaction("k", "open"), nil) },
		func() error { return r.Write(t.Context(), put("k", 1), nil) },
	} {
		if panicked := panicking(request); panicked == nil {
			t.Error("it did not panic")
		}
	}
	panics.Store(false)
	if _, err := decide(t.Context(), r, transaction("k", "open")); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), r, put("k", 1)); err != nil {
		t.Fatal(err)
	}
}

// panicking calls f and returns the value of its panic.
func panicking(f func() error) (panicked any) {
	defer func() { panicked = recover() }()
	_ = f()
	return nil
}
