// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

const (
	// stampSize is the number of bytes at the start of a checked row's first column that identify the row and its
	// version. These bytes are two numbers of 16 hexadecimal digits.
	stampSize = 32
	// checkedMax is the maximum size of a checked row. Such a row must fit into the buffer of a loader.
	checkedMax = 64 << 10
)

// checkable returns an error if the run cannot be verified.
func (o *Options) checkable() error {
	switch {
	case o.Workload != "read" && o.Workload != "write" && o.Workload != "mixed":
		return fmt.Errorf("--verify does not support workload %s: use read, write, or mixed", o.Workload)
	case o.Consistency != dberr.Quorum && o.Consistency != dberr.LocalQuorum && o.Consistency != dberr.All:
		return fmt.Errorf("--verify requires a consistency level at which reads see all previous writes: QUORUM, " +
			"LOCAL_QUORUM, or ALL")
	case o.SkipLoad:
		return fmt.Errorf("--verify cannot be combined with --skip-load: the rows of an earlier run are unknown")
	case o.RowSize < columns*stampSize || o.RowSize > checkedMax:
		return fmt.Errorf("--verify requires --row-size from %d to %d", columns*stampSize, checkedMax)
	case o.Keys < o.Connections:
		return fmt.Errorf("--verify requires at least as many keys as connections")
	}
	return nil
}

// checker generates the requests of a connection and checks the responses. No other connection writes the same keys. A
// read must return a complete version of a row. The version must not be older than the last version that was
// acknowledged before the read was sent. It must not be newer than the last version that was sent.
type checker struct {
	w *workload
	// keys holds the keys of the connection. Element n is the key first + n*step.
	keys        []checked
	first, step int
	draw        func() int
	rng         *rand.Rand
	streams     []asked
	want        []byte
}

// checked is the state of a row.
type checked struct {
	acked, sent int64
	// writing is set while a write is in flight. lost is set after a write that received no response. After such a
	// write, the row is not written again.
	writing, lost bool
}

// asked is the request on a stream.
type asked struct {
	key   int
	write bool
	// version is the written version. For a read, it is the minimum version.
	version int64
}

func (w *workload) checker(id int) *checker {
	rng := rand.New(rand.NewPCG(uint64(id)+1, 6))
	step := w.o.Connections
	return &checker{w: w, keys: make([]checked, (w.o.Keys-id+step-1)/step), first: id, step: step, draw: w.keys(rng),
		rng: rng, streams: make([]asked, w.o.InFlight)}
}

// next appends a request.
func (c *checker) next(dst []byte, stream int16) []byte {
	r := &c.w.main[c.rng.IntN(len(c.w.main))]
	n := c.draw() / c.step % len(c.keys)
	k, key := &c.keys[n], c.first+n*c.step
	if r.writes() && (k.writing || k.lost) {
		r = &c.w.read
	}
	a := asked{key: n, write: r.writes(), version: k.acked}
	if a.write {
		k.sent++
		k.writing, a.version = true, k.sent
	}
	c.streams[stream] = a
	return c.w.append(dst, stream, r, key, 0, func(column int) []byte {
		c.want = c.w.appendChecked(c.want[:0], key, a.version, column)
		return c.want
	})
}

// answer checks a complete response. It describes the error in the response, or returns "".
func (c *checker) answer(h cqlwire.Header, body []byte) (wrong string) {
	a := &c.streams[h.Stream]
	k, key := &c.keys[a.key], c.first+a.key*c.step
	failed := h.Opcode == cqlwire.OpError
	switch {
	case a.write && failed:
		k.writing, k.lost = false, true
	case a.write:
		k.writing, k.acked = false, a.version
	case !failed:
		if wrong = c.wrong(key, a.version, k.sent, body); wrong != "" {
			return fmt.Sprintf("key %d: %s", key, wrong)
		}
	}
	return ""
}

// wrong describes the error in a row that was read. It returns "" if the row is correct.
func (c *checker) wrong(key int, least, most int64, body []byte) string {
	r, err := cqlwire.DecodeResult(body, cqlwire.V4)
	if err != nil {
		return err.Error()
	}
	if r.RowCount != 1 {
		return fmt.Sprintf("%d rows", r.RowCount)
	}
	var version int64
	cells := r.Cells
	for column := range columns {
		if len(cells) < 4 {
			return fmt.Sprintf("the row has only %d columns", column)
		}
		n := int32(binary.BigEndian.Uint32(cells))
		if n < 0 || int(n) > len(cells)-4 {
			return fmt.Sprintf("column %d is null", column)
		}
		cell := cells[4 : 4+n]
		cells = cells[4+n:]
		if column == 0 {
			var of int
			if _, err := fmt.Sscanf(string(cell[:min(len(cell), stampSize)]), "%016x%016x", &of, &version); err != nil {
				return fmt.Sprintf("it starts with %q", cell[:min(len(cell), stampSize)])
			}
			if of != key || version < least || version > most {
				return fmt.Sprintf("read version %d of key %d, expected versions %d to %d", version, of, least,
					most)
			}
		}
		if c.want = c.w.appendChecked(c.want[:0], key, version, column); !bytes.Equal(c.want, cell) {
			return fmt.Sprintf("column %d does not match version %d", column, version)
		}
	}
	return ""
}

// appendChecked appends a column of a version of a row.
func (w *workload) appendChecked(dst []byte, key int, version int64, column int) []byte {
	of := &w.values[(uint64(key)*31+uint64(version)*7+uint64(column))%uint64(len(w.values))]
	if column > 0 {
		return append(dst, *of...)
	}
	dst = appendHex(appendHex(dst, uint64(key)), uint64(version))
	return append(dst, (*of)[stampSize:]...)
}

// appendHex appends a number as 16 hexadecimal digits.
func appendHex(dst []byte, n uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[n>>shift&15])
	}
	return dst
}
