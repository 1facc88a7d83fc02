// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
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
	kindRelay
	kindRelayed
	// kindTruncateOnce is a kindTruncate that has an ID. It is of feature level 7.
	kindTruncateOnce

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

// The first byte of an answer after the version: how it ended, and whether trace events follow.
const (
	answerFailed = 1 << iota
	answerTraced
)

// The fields of the answer to a write. What it has cost is in ru.Units.
const writeCharge = 1

// appendEnd appends how a write ended well: where it is in the log, and fields.
func appendEnd(dst []byte, index uint64, price ru.Units) []byte {
	w := codec.Writer(binary.AppendUvarint(dst, index))
	if price > 0 {
		var number [binary.MaxVarintLen64]byte
		w.Field(writeCharge, false, binary.AppendUvarint(number[:0], uint64(price)))
	}
	w.EndFields()
	return w
}

// end takes it off again. Fields of later builds are passed over, unless they must be known.
func (r *reader) end() (index uint64, price ru.Units) {
	index = r.Uint()
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		switch {
		case f.Number == writeCharge:
			v := codec.NewReader(f.Value, ErrMalformed)
			if price = ru.Units(v.UpTo(math.MaxInt64)); v.End() != nil {
				r.Fail()
			}
		case f.Must:
			r.Fail()
		}
	}
	return index, price
}

// appendExtent appends the partition that a request was planned for. Requests that name keys carry the epoch with them.
func appendExtent(dst []byte, x partition.Extent) []byte {
	return codec.AppendBytes(binary.AppendUvarint(dst, x.Epoch), x.Span.Append(nil))
}

// extent takes it off again; its bytes are views.
func (r *reader) extent() (x partition.Extent) {
	x.Epoch = r.Uint()
	span, err := keys.DecodeSpan(r.Bytes())
	if err != nil || x.Epoch == 0 {
		r.Fail()
	}
	x.Span = span
	return x
}

// appendClaimant appends who asks, if it is known: nothing follows it.
func appendClaimant(dst []byte, who fairshare.Principal) []byte {
	if who == (fairshare.Principal{}) {
		return dst
	}
	return who.Append(dst)
}

// claimant takes it off again.
func (r *reader) claimant() (who fairshare.Principal) {
	if b := r.Rest(); r.Err() == nil && len(b) > 0 {
		var ok bool
		if who, ok = fairshare.DecodePrincipal(r.Take(uint64(len(b)))); !ok {
			r.Fail()
		}
	}
	return who
}

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
		dst = codec.AppendText(dst, e.Activity)
	}
	return dst
}

// takeTrace adds the events of another node to t.
func (r *reader) takeTrace(t *trace.Trace) {
	for range r.Count(2) {
		r.Uint()
		activity := r.Text()
		if r.Err() == nil {
			t.Add(activity)
		}
	}
}

// reader takes off what the append functions wrote. Its byte slices are views.
type reader struct{ codec.Reader }

func newReader(b []byte) reader { return reader{codec.NewReader(b, ErrMalformed)} }

// small is a number that fits an int wherever this runs.
func (r *reader) small() int { return int(r.UpTo(math.MaxInt32)) }

func (r *reader) node() (id topology.NodeID) {
	copy(id[:], r.Take(uint64(len(id))))
	return id
}
