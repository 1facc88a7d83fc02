// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// version is that of every request and answer written here. A node answers a request of a newer version with an error.
const version = 1

// The kinds of requests, their first byte. KindMax and below belong to this package, those above to others.
const (
	kindRead byte = 1 + iota
	kindEnough
	kindWrite
	kindDecide
	kindWriteAll
	kindTruncate
	kindRequire
	kindLast
	kindChange

	// KindMax is the highest first byte of a request for this package; 1 is the lowest.
	KindMax = 63
)

// ErrMalformed says that bytes of another node are no request or answer.
var ErrMalformed = errors.New("malformed request or answer of another node")

// traced is the flag of a request whose answer is to bring trace events.
const traced = 1

// appendHead begins a request: kind, version, flags, physical partition.
func appendHead(dst []byte, kind byte, id topology.PartitionID, t *trace.Trace) []byte {
	flags := byte(0)
	if t != nil {
		flags = traced
	}
	return binary.AppendUvarint(append(dst, kind, version, flags), uint64(id))
}

// The first byte of an answer, behind the version: how it ended, and whether trace events follow.
const (
	answerFailed = 1 << iota
	answerTraced
)

// buffers keeps bytes for requests and answers; larger ones than bufferMax are left to the collector.
type buffers struct{ pool sync.Pool }

const bufferMax = 256 << 10

func (p *buffers) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	return new([]byte)
}

func (p *buffers) put(b *[]byte) {
	if cap(*b) <= bufferMax {
		p.pool.Put(b)
	}
}

// appendTrace appends the events of t, each with the microseconds since it began.
func appendTrace(dst []byte, t *trace.Trace) []byte {
	events := t.Events()
	dst = binary.AppendUvarint(dst, uint64(len(events)))
	for _, e := range events {
		dst = binary.AppendUvarint(dst, uint64(max(0, e.At.Sub(t.Started)/time.Microsecond)))
		dst = appendString(dst, e.Activity)
	}
	return dst
}

// takeTrace adds the events of another node to t.
func (r *reader) takeTrace(t *trace.Trace) {
	for range r.count(2) {
		r.uint()
		activity := r.bytes()
		if r.err == nil {
			t.Add(string(activity))
		}
	}
}

func appendBytes(dst, v []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

func appendString(dst []byte, v string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// reader takes values off b. What does not fit sets err; everything read afterwards is zero. No count is believed that the rest cannot hold.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = ErrMalformed
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// small is a number that fits an int wherever this runs.
func (r *reader) small() int {
	v := r.uint()
	if v > 1<<31-1 {
		r.fail()
		return 0
	}
	return int(v)
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// bytes is a view, empty when there is nothing.
func (r *reader) bytes() []byte  { return r.take(r.uint()) }
func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) node() (id topology.NodeID) {
	copy(id[:], r.take(uint64(len(id))))
	return id
}

func (r *reader) count(itemMin int) int {
	n := r.uint()
	if n > uint64(len(r.b)/itemMin) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail()
	}
	return r.err
}
