// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// version is the version of all requests and responses that this build writes. A request with a newer version is
// rejected.
const version = 1

// These are the kinds of requests. A kind is the first byte of a request and the number of the call in package rpc.
const (
	kindRead byte = 1 + iota
	kindCancel
	kindWrite
	kindConditionalWrite
	kindWriteAll
	kindTruncate
	kindRequire
	kindLast
	kindChange
	kindRelay
	kindRelayed
	// kindTruncateOnce is a truncation with a dedupe ID.
	kindTruncateOnce
	kindForward
	kindForwarded
)

// Calls are the calls to replicas.
var Calls = []rpc.Spec{
	declare[command.Read, []row.Row]("read", kindRead, 1, true),
	declare[uint64, rpc.None]("cancel read", kindCancel, 1, true),
	declare[command.Mutation, command.Outcome]("write", kindWrite, 1, true),
	declare[command.Conditional, command.CASResult]("conditional write", kindConditionalWrite, 1, true),
	declare[[]partition.Part, command.Outcome]("write all", kindWriteAll, 1, true),
	declare[partition.Extent, command.Outcome]("truncate", kindTruncate, 1, false),
	declare[partition.Extent, rpc.None]("require revision", kindRequire, 1, true),
	declare[partition.Extent, int64]("last timestamp", kindLast, 1, true),
	declare[command.Records, uint64]("change metadata", kindChange, 1, true),
	declare[rpc.Bytes, rpc.Bytes]("relay", kindRelay, 2, true),
	declare[rpc.Bytes, rpc.Bytes]("relayed", kindRelayed, 2, true),
	declare[partition.Truncation, command.Outcome]("truncate once", kindTruncateOnce, feature.TruncationIDs, true),
	declare[rpc.Bytes, rpc.Bytes]("forward", kindForward, feature.Regions, true),
	declare[rpc.Bytes, rpc.Bytes]("forwarded", kindForwarded, feature.Regions, true),
}

func declare[Q, A any](name string, kind byte, since feature.Level, idempotent bool) rpc.Spec {
	return rpc.Declare[Q, A](rpc.Spec{Name: name, Number: kind, Since: since, Timeout: Wait, Idempotent: idempotent,
		Manual: true}).Spec
}

// ErrMalformed means that another node has sent an invalid request or response.
var ErrMalformed = errors.New("malformed request or response from another node")

// traced is the flag of a request that requests trace events in the response.
const traced = 1

// appendHead starts a request with its kind, version, flags, and physical partition.
func appendHead(dst []byte, kind byte, id topology.PartitionID, t *trace.Trace) []byte {
	flags := byte(0)
	if t != nil {
		flags = traced
	}
	return binary.AppendUvarint(append(dst, kind, version, flags), uint64(id))
}

// These are the flags in the second byte of a response. They contain the outcome and indicate whether trace events
// follow.
const (
	answerFailed = 1 << iota
	answerTraced
)

// These are the fields of the response to a write. The cost is in ru.Units.
const writeCharge = 1

// appendOutcome encodes the outcome of a successful write as the log index, followed by the result or the fields.
func (s *Server) appendOutcome(dst []byte, o *command.Outcome) []byte {
	w := codec.Writer(binary.AppendUvarint(dst, o.Index))
	if o.CAS != nil {
		encoded := s.buffers.get()
		defer s.buffers.put(encoded)
		*encoded = command.AppendCASResult(*encoded, o.CAS)
		return codec.AppendBytes(w, *encoded)
	}
	if o.Charge > 0 {
		var number [binary.MaxVarintLen64]byte
		w.Field(writeCharge, false, binary.AppendUvarint(number[:0], uint64(o.Charge)))
	}
	w.EndFields()
	return w
}

// charge decodes the fields of a successful write. It skips unknown fields unless they are required.
func (r *reader) charge() (charge int64) {
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		switch {
		case f.Number == writeCharge:
			v := codec.NewReader(f.Value, ErrMalformed)
			if charge = int64(v.UpTo(math.MaxInt64)); v.End() != nil {
				r.Fail()
			}
		case f.Must:
			r.Fail()
		}
	}
	return charge
}

// appendExtent encodes the extent for which a request was planned.
func appendExtent(dst []byte, x partition.Extent) []byte {
	return codec.AppendBytes(binary.AppendUvarint(dst, x.Epoch), x.Span.Append(nil))
}

// extent decodes an extent. The bytes of the extent refer to the request.
func (r *reader) extent() (x partition.Extent) {
	x.Epoch = r.Uint()
	span, err := keys.DecodeSpan(r.Bytes())
	if err != nil || x.Epoch == 0 {
		r.Fail()
	}
	x.Span = span
	return x
}

// appendPrincipal encodes the principal if it is known. The principal must be the last field.
func appendPrincipal(dst []byte, who fairshare.Principal) []byte {
	if who == (fairshare.Principal{}) {
		return dst
	}
	return who.Append(dst)
}

// principal decodes the principal.
func (r *reader) principal() (who fairshare.Principal) {
	if b := r.Rest(); r.Err() == nil && len(b) > 0 {
		var ok bool
		if who, ok = fairshare.DecodePrincipal(r.Take(uint64(len(b)))); !ok {
			r.Fail()
		}
	}
	return who
}

// buffers is a pool of buffers for requests and responses. It does not keep buffers larger than bufferMax.
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

// appendTrace encodes the events of t, each with the microseconds since the start of the trace.
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

// reader decodes the output of the append functions. The decoded byte slices refer to the input.
type reader struct{ codec.Reader }

func newReader(b []byte) reader { return reader{codec.NewReader(b, ErrMalformed)} }

// small decodes a number that fits into an int on all platforms.
func (r *reader) small() int { return int(r.UpTo(math.MaxInt32)) }

func (r *reader) node() (id topology.NodeID) {
	copy(id[:], r.Take(uint64(len(id))))
	return id
}
