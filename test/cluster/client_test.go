// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// client is a client with one connection.
type client struct {
	l       *load
	id      int
	conn    *rawclient.Conn
	at      *member
	moved   atomic.Pointer[[]*member] // the targets that the client received last
	rng     *rand.Rand
	samples []sample

	plain, stamped [keysPerClient]*cell
	cells          atomic.Pointer[[]*cell] // the cells that other clients may read
	seen           map[int64]int64
	lists          []listState
	batches        map[int64]bool // true if acknowledged, false if the outcome is unknown
}

type listState struct {
	key   int64
	acked []int64
	maybe int64 // value of the append with an unknown outcome, or 0
}

func (c *client) run() {
	for !c.l.ended() {
		if !c.connect() {
			continue
		}
		c.work()
		c.l.done.Add(1)
	}
	if c.conn != nil {
		c.conn.Close()
	}
}

// connect moves the client to its assigned node.
func (c *client) connect() bool {
	targets := c.l.targets.Load()
	want := (*targets)[c.id%len(*targets)]
	if c.conn != nil && c.at == want {
		c.moved.Store(targets)
		return true
	}
	if c.conn != nil {
		c.conn.Close()
	}
	conn, err := rawclient.Dial(c.l.t.Context(), want.cql(), rawclient.Options{Timeout: 20 * time.Second})
	if err != nil {
		c.conn = nil
		if !c.l.ended() {
			if !c.l.uncertain.Load() {
				c.l.fail("client %d: %v", c.id, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		return false
	}
	c.conn, c.at = conn, want
	c.moved.Store(targets)
	return true
}

// ask sends a statement. unknown is true if the outcome of the statement is unknown. refused is true if the statement
// had no effect.
func (c *client) ask(k kind, level dberr.Consistency, text string) (r *cqlwire.Result, unknown, refused bool) {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency, q.PageSize = level, cqlwire.NoPaging
	began := time.Now()
	_, body, err := c.conn.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
	took := time.Since(began)
	c.samples = append(c.samples, sample{kind: k, at: began.Sub(c.l.began), took: took})
	if err == nil {
		r, err = cqlwire.DecodeResult(body, cqlwire.V4)
	}
	if err == nil {
		return r, false, false
	}
	e := (*cqlwire.Error)(nil)
	said := errors.As(err, &e)
	kind := ""
	if said {
		kind = e.WriteType
	}
	c.l.unanswered("client %d at %s, %s, after %s: %.60s: %v %s", c.id, c.at.name(), kindNames[k],
		took.Round(time.Millisecond), text, err, kind)
	if !said { // the connection broke
		c.conn.Close()
		c.conn = nil
		return nil, true, false
	}
	if e.Code == cqlwire.CodeUnavailable || e.Code == cqlwire.CodeOverloaded {
		return nil, false, true
	}
	return nil, true, false
}

// work sends one request.
func (c *client) work() {
	switch n := c.rng.IntN(100); {
	case n < 18:
		c.write(plainWrite, &c.plain[c.rng.IntN(keysPerClient)])
	case n < 26:
		c.write(stampedWrite, &c.stamped[c.rng.IntN(keysPerClient)])
	case n < 42:
		c.read(readOne, dberr.One)
	case n < 58:
		c.read(readQuorum, dberr.Quorum)
	case n < 78:
		c.register()
	case n < 86:
		c.count()
	case n < 89:
		c.readCount()
	case n < 94:
		c.batch()
	default:
		c.append()
	}
}

func (c *client) newCell(table string) *cell {
	return &cell{table: table, key: int64(c.id)<<32 | c.l.values.Add(1)}
}

// publish makes the keys that this client writes known to the other clients.
func (c *client) publish() {
	all := slices.Concat(c.plain[:], c.stamped[:])
	c.cells.Store(&all)
}

func (c *client) write(k kind, at **cell) {
	x := *at
	x.mu.Lock()
	x.tried++
	v := x.tried
	x.mu.Unlock()
	text := fmt.Sprintf("INSERT INTO load.%s (k, v) VALUES (%d, %d)", x.table, x.key, v)
	if k == stampedWrite {
		text += fmt.Sprintf(" USING TIMESTAMP %d", time.Now().UnixMicro())
	}
	_, unknown, refused := c.ask(k, dberr.Quorum, text)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case unknown:
		x.unknown = true
		*at = c.newCell(x.table)
		c.publish()
	case refused:
	default:
		x.acked = append(x.acked, ack{v, time.Now(), c.at})
		if len(x.acked) > 100 {
			x.acked = slices.Delete(x.acked, 0, 50)
		}
	}
}

// read reads a key of any client. Most reads use a key of the reading client.
func (c *client) read(k kind, level dberr.Consistency) {
	owner := c
	if c.rng.IntN(3) == 0 {
		owner = c.l.clients[c.rng.IntN(len(c.l.clients))]
	}
	cells := *owner.cells.Load()
	x := cells[c.rng.IntN(len(cells))]
	began := time.Now()
	at := c.at
	if c.l.uncertain.Load() {
		at = nil // a restarted node does not remember the writes that it has acknowledged
	}
	least := x.least(level, began, at)
	r, unknown, refused := c.ask(k, level, fmt.Sprintf("SELECT v FROM load.%s WHERE k = %d", x.table, x.key))
	if unknown || refused {
		return
	}
	got := number(r, "v", 0)
	x.mu.Lock()
	most := x.tried
	x.mu.Unlock()
	if got < least || got > most {
		c.l.fail("client %d at %s: a read at %v of %s %d, started %s, returned %d, want %d to %d",
			c.id, c.at.name(), level, x.table, x.key, began.Sub(c.l.began), got, least, most)
	}
}

// least returns the lowest value that a read starting now may return.
func (x *cell) least(level dberr.Consistency, now time.Time, at *member) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	var least int64
	for _, a := range x.acked {
		// A node that has acknowledged a write returns the value in all later reads at any consistency level.
		if level != dberr.One || a.node == at || now.Sub(a.at) > stalenessMax {
			least = max(least, a.value)
		}
	}
	return least
}

func (c *client) register() {
	key := int64(time.Since(c.l.began)/registerTime)*registersAtOnce + int64(c.rng.IntN(registersAtOnce))
	in := input{key: key, to: c.l.values.Add(1)}
	level := dberr.Quorum
	switch n := c.rng.IntN(20); {
	case n < 5:
		in.do = get
		if n < 3 {
			level = dberr.Serial
		}
	case n < 7:
		in.do = set
	case n < 8:
		in.do = remove
	case n < 10:
		c.setBoth(key)
		return
	case n < 14:
		in.do, in.from = create, absent
	default:
		in.do, in.from = swap, c.seen[key]
	}
	op := porcupine.Operation{ClientId: c.id, Input: in, Call: int64(time.Since(c.l.began))}
	r, unknown, refused := c.ask(condition, level, in.text())
	op.Return = int64(time.Since(c.l.began))
	if refused || unknown && in.do == get {
		return
	}
	out := output{unknown: unknown, applied: true, value: absent}
	if !unknown && in.do != set && in.do != remove {
		out.applied = number(r, "[applied]", 1) == 1
		out.value = number(r, "v", absent)
	}
	op.Output = out
	c.l.history.add(op)
	if in.do == get || !out.applied {
		c.seen[key] = out.value
	} else {
		c.seen[key] = in.to
	}
}

// setBoth sets two registers in different partitions in one LOGGED batch.
func (c *client) setBoth(key int64) {
	ins := [...]input{{do: set, key: key, to: c.l.values.Add(1)}, {do: set, key: key ^ 1, to: c.l.values.Add(1)}}
	began := int64(time.Since(c.l.began))
	_, unknown, refused := c.ask(batch, dberr.Quorum, together(ins[:]...))
	if refused {
		return
	}
	ended := int64(time.Since(c.l.began))
	for _, in := range ins {
		// One client sets both registers in one operation, but porcupine checks each register separately.
		c.l.history.add(porcupine.Operation{ClientId: c.id, Input: in, Call: began, Return: ended,
			Output: output{unknown: unknown, applied: true, value: absent}})
		c.seen[in.key] = in.to
	}
}

func (c *client) count() {
	k := c.rng.IntN(counterKeys)
	n := &c.l.counters[k]
	n.begun.Add(1)
	_, unknown, refused := c.ask(increment, dberr.Quorum, fmt.Sprintf("UPDATE load.counters SET n = n + 1 WHERE k = %d",
		k))
	switch {
	case unknown:
		n.unknown.Add(1)
	case refused:
		n.begun.Add(-1)
	default:
		n.acked.Add(1)
	}
}

func (c *client) readCount() {
	k := c.rng.IntN(counterKeys)
	n := &c.l.counters[k]
	least := n.acked.Load()
	r, unknown, refused := c.ask(readCounter, dberr.Quorum, fmt.Sprintf("SELECT n FROM load.counters WHERE k = %d", k))
	if unknown || refused {
		return
	}
	if got, most := number(r, "n", 0), n.begun.Load(); got < least || got > most {
		c.l.fail("counter %d is %d: %d increments were acknowledged before, %d begun", k, got, least, most)
	}
}

func (c *client) batch() {
	id := int64(c.id)<<32 | c.l.values.Add(1)
	_, unknown, refused := c.ask(batch, dberr.Quorum, fmt.Sprintf(`BEGIN BATCH
		INSERT INTO load.batch_a (k, v) VALUES (%[1]d, 1); INSERT INTO load.batch_b (k, v) VALUES (%[1]d, 2);
		INSERT INTO load.batch_c (k, c, v) VALUES (%[1]d, 1, 3); INSERT INTO load.batch_c (k, c, v) VALUES (%[1]d, 2, 4); APPLY BATCH`, id))
	if !refused {
		c.batches[id] = !unknown
	}
}

func (c *client) append() {
	if len(c.lists) == 0 || len(c.lists[len(c.lists)-1].acked) >= listLength || c.lists[len(c.lists)-1].maybe != 0 {
		c.lists = append(c.lists, listState{key: int64(c.id)<<32 | c.l.values.Add(1)})
	}
	s := &c.lists[len(c.lists)-1]
	v := c.l.values.Add(1)
	_, unknown, refused := c.ask(listAppend, dberr.Quorum,
		fmt.Sprintf("UPDATE load.lists SET l = l + [%d] WHERE k = %d", v, s.key))
	switch {
	case unknown:
		s.maybe = v
	case refused:
	default:
		s.acked = append(s.acked, v)
	}
}

// number returns the first row's value in a column. If the value does not exist, number returns otherwise.
func number(r *cqlwire.Result, column string, otherwise int64) int64 {
	if r.RowCount == 0 {
		return otherwise
	}
	cells := r.Cells
	for i := range r.ColumnCount {
		cell, rest := next(cells)
		cells = rest
		if r.Columns[i].Name != column || cell == nil {
			continue
		}
		var n int64
		for _, b := range cell {
			n = n<<8 | int64(b)
		}
		return n
	}
	return otherwise
}

// next returns the first cell and the remaining cells.
func next(cells []byte) (cell, rest []byte) {
	n := int32(binary.BigEndian.Uint32(cells))
	if n < 0 {
		return nil, cells[4:]
	}
	return cells[4 : 4+n : 4+n], cells[4+n:]
}
