// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Target is a replica that executes requests. *partition.Replica implements it.
type Target interface {
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	Write(ctx context.Context, m *command.Mutation, done command.Completion) error
	ConditionalWrite(ctx context.Context, c *command.Conditional, done command.Completion) error
	WriteAll(ctx context.Context, parts []partition.Part, done command.Completion) error
	Truncate(ctx context.Context, x partition.Extent, t partition.Truncation, done command.Completion) error
	Require(ctx context.Context, x partition.Extent, revision uint64) error
	Last(ctx context.Context, x partition.Extent, who fairshare.Principal) (stamp int64, err error)
	Change(ctx context.Context, c command.Records) (version uint64, err error)
}

// targets are the replicas of a node.
type targets interface {
	// target returns the replica of a partition, or nil if the node has no replica of the partition.
	target(id topology.PartitionID) Target
}

// hostTargets are the replicas of a host.
type hostTargets struct{ *partition.Host }

func (h hostTargets) target(id topology.PartitionID) Target {
	if r := h.Replica(id); r != nil {
		return r
	}
	return nil
}

// Server executes requests of other nodes on the replicas of this node. It is safe for concurrent use.
type Server struct {
	targets   targets
	transport Transport
	sched     *sched.Scheduler
	page      int // PageBytes, except in tests
	buffers   buffers
	works     sync.Pool // pool of *pendingWrite
	reads     sync.Pool // pool of *pageWriter

	// open holds the reads in progress by the requesting node and the number of the read.
	mu   sync.Mutex
	open map[readID]*pageWriter
}

// readID identifies a read by a node.
type readID struct {
	from   topology.NodeID
	number uint64
}

// NewServer returns a server for the replicas of a host. The server relays requests to other nodes through c. The
// scheduler is nil outside simulations.
func NewServer(host *partition.Host, c Transport, scheduler *sched.Scheduler) *Server {
	s := newServer(hostTargets{host})
	s.sched, s.transport = scheduler, c
	return s
}

func newServer(t targets) *Server {
	s := &Server{targets: t, page: PageBytes, open: map[readID]*pageWriter{}}
	s.works.New = func() any { return new(pendingWrite) }
	s.reads.New = func() any { return new(pageWriter) }
	return s
}

// Serve executes a request and owns it. It may send the response after it has returned.
func (s *Server) Serve(ctx context.Context, from topology.NodeID, request []byte, to transport.Responder) {
	s.serve(ctx, from, request, forwarded{}, to)
}

func (s *Server) serve(ctx context.Context, from topology.NodeID, request []byte, f forwarded,
	to transport.Responder) {
	r := newReader(request)
	kind, v, flags := r.Byte(), r.Byte(), r.Byte()
	id := topology.PartitionID(r.Uint())
	switch {
	case r.Err() != nil || v == 0:
		to.Fail(ErrMalformed)
		return
	case v > version:
		to.Fail(fmt.Errorf("unsupported request version %d: this node supports version %d", v, version))
		return
	case kind == kindCancel:
		s.cancel(readID{from, r.Uint()})
		_ = to.End(nil)
		return
	case kind == kindRelay:
		s.relay(ctx, from, &r, id, to)
		return
	case kind == kindForward:
		s.forward(ctx, from, &r, id, to)
		return
	case kind == kindForwarded:
		s.serveForwarded(ctx, &r, to)
		return
	case kind == kindRelayed:
		if from = r.node(); r.Err() != nil || len(r.Rest()) == 0 || relays(r.Rest()[0]) {
			to.Fail(ErrMalformed) // a request must be relayed only once
			return
		}
		s.Serve(ctx, from, r.Rest(), to)
		return
	}
	var t *trace.Trace
	if flags&traced != 0 {
		t = trace.New([16]byte{}, s.sched.Now())
		ctx = trace.With(ctx, t)
	}
	target := s.targets.target(id)
	if target == nil {
		s.fail(to, t, partition.ErrClosed) // this node has no replica, so the request had no effect
		return
	}
	switch kind {
	case kindRead:
		s.read(ctx, target, from, &r, t, to)
	case kindWrite, kindConditionalWrite, kindWriteAll, kindTruncate, kindTruncateOnce:
		s.write(ctx, target, id, kind, &r, f, t, to)
	case kindRequire, kindLast, kindChange:
		s.number(ctx, target, kind, &r, t, to)
	default:
		to.Fail(fmt.Errorf("unknown request kind %d", kind))
	}
}

// inlineWriter is a Target that can execute a write without blocking.
type inlineWriter interface {
	WriteNow(m *command.Mutation, done command.Completion) (taken bool, err error)
}

// ServeInline executes a plain write if the write need not wait (see transport.CommandHandler). If ServeInline returns
// false, the caller must pass the request to Serve.
func (s *Server) ServeInline(request []byte, to transport.Responder) bool {
	r := newReader(request)
	kind, v, flags := r.Byte(), r.Byte(), r.Byte()
	id := topology.PartitionID(r.Uint())
	if kind != kindWrite || v != version || flags != 0 || r.Err() != nil {
		return false
	}
	target, ok := s.targets.target(id).(inlineWriter)
	if !ok {
		return false
	}
	w := s.begin(to, nil)
	err := command.DecodeMutation(&w.mutation, r.Rest())
	taken := true
	if err == nil {
		taken, err = target.WriteNow(&w.mutation, w)
	}
	switch {
	case !taken:
		w.release()
		return false
	case err != nil:
		w.Done(command.Failed(err))
	}
	w.finishFirst()
	return true
}

// head starts a response.
func head(dst []byte, t *trace.Trace, failed bool) []byte {
	return append(dst, version, codec.Bit(failed)*answerFailed|codec.Bit(t != nil)*answerTraced)
}

func tail(dst []byte, t *trace.Trace) []byte {
	if t == nil {
		return dst
	}
	return appendTrace(dst, t)
}

// fail responds with an error.
func (s *Server) fail(to transport.Responder, t *trace.Trace, err error) {
	b := s.buffers.get()
	*b = tail(AppendError(head(*b, t, true), err), t)
	_ = to.End(*b)
	s.buffers.put(b)
}

// number executes a request whose response is a number.
func (s *Server) number(ctx context.Context, target Target, kind byte, r *reader, t *trace.Trace,
	to transport.Responder) {
	var n uint64
	var err error
	switch kind {
	case kindRequire:
		x, revision := r.extent(), r.Uint()
		if err = r.End(); err == nil {
			err = target.Require(ctx, x, revision)
		}
	case kindLast:
		x, who := r.extent(), r.principal()
		if err = r.End(); err == nil {
			var stamp int64
			stamp, err = target.Last(ctx, x, who)
			n = uint64(stamp)
		}
	case kindChange:
		var c command.Records
		if err = command.DecodeRecords(&c, r.Rest()); err == nil {
			n, err = target.Change(ctx, c)
		}
	}
	if err != nil {
		s.fail(to, t, err)
		return
	}
	b := s.buffers.get()
	*b = tail(binary.AppendUvarint(head(*b, t, false), n), t)
	_ = to.End(*b)
	s.buffers.put(b)
}

// pendingWrite is a write in progress. It is reused after the replica's method has returned and the completion has been
// called.
type pendingWrite struct {
	s           *Server
	to          transport.Responder
	t           *trace.Trace
	both        sched.Rendezvous // joins the replica's method and the completion
	mutation    command.Mutation
	conditional command.Conditional
	id          topology.PartitionID
	forwarded   forwarded
}

func (s *Server) begin(to transport.Responder, t *trace.Trace) *pendingWrite {
	w := s.works.Get().(*pendingWrite)
	w.s, w.to, w.t = s, to, t
	w.both.Reset()
	return w
}

func (s *Server) write(ctx context.Context, target Target, id topology.PartitionID, kind byte, r *reader, f forwarded,
	t *trace.Trace, to transport.Responder) {
	w := s.begin(to, t)
	w.id, w.forwarded = id, f
	var err error
	switch kind {
	case kindWrite:
		if err = command.DecodeMutation(&w.mutation, r.Rest()); err == nil {
			err = f.readdress(id, &w.mutation)
		}
		if err == nil {
			err = target.Write(ctx, &w.mutation, w)
		}
	case kindConditionalWrite:
		if err = command.DecodeConditional(&w.conditional, r.Rest()); err == nil {
			err = f.readdress(id, &w.conditional.Mutation)
		}
		if err == nil {
			err = target.ConditionalWrite(ctx, &w.conditional, w)
		}
	case kindWriteAll:
		var parts []partition.Part
		if parts, err = r.takeParts(); err == nil && len(parts) == 0 {
			err = ErrMalformed
		}
		for i := range parts {
			if err == nil {
				err = f.readdress(id, parts[i].Mutation)
			}
		}
		if err == nil {
			err = target.WriteAll(ctx, parts, w)
		}
	case kindTruncate, kindTruncateOnce:
		x, t := r.extent(), partition.Truncation{}
		for range r.Count(1) {
			t.Indexes = append(t.Indexes, r.Uint32())
		}
		if err = r.Err(); kind == kindTruncate {
			err = r.End()
		} else if err == nil {
			t.Attempt = &w.mutation
			if err = command.DecodeMutation(t.Attempt, r.Rest()); err == nil {
				err = f.readdress(id, t.Attempt)
			}
		}
		if err == nil {
			err = target.Truncate(ctx, x, t, w)
		}
	}
	if err != nil {
		w.Done(command.Failed(err))
	}
	w.finishFirst()
}

// answerNow is the maximum size of a response that is sent without waiting for room on the connection (see
// transport.Responder.End).
const answerNow = 4 << 10

// Done sends the response. It sends a large result on another goroutine, because a completion must not wait.
func (w *pendingWrite) Done(o command.Outcome) {
	if o.Err != nil {
		w.s.fail(w.to, w.t, w.forwarded.explain(w.id, o.Err))
		w.finishFirst()
		return
	}
	s, to, b := w.s, w.to, w.s.buffers.get()
	*b = tail(s.appendOutcome(head(*b, w.t, false), &o), w.t)
	if len(*b) <= answerNow {
		_ = to.End(*b)
		s.buffers.put(b)
	} else {
		s.sched.Go(func() { // the goroutine ends at the caller's deadline at the latest
			_ = to.End(*b)
			s.buffers.put(b)
		})
	}
	w.finishFirst()
}

// finishFirst is called after the replica's method has returned and after the completion has been called. The second
// call releases w.
func (w *pendingWrite) finishFirst() {
	if second := w.both.Arrive(); second {
		w.release()
	}
}

// release returns w to its pool.
func (w *pendingWrite) release() {
	s := w.s
	clear(w.mutation.Ops)
	w.mutation = command.Mutation{Ops: w.mutation.Ops[:0]}
	clear(w.conditional.Mutation.Ops)
	w.conditional = command.Conditional{Mutation: command.Mutation{Ops: w.conditional.Mutation.Ops[:0]}}
	w.s, w.to, w.t, w.id, w.forwarded = nil, nil, nil, 0, forwarded{}
	s.works.Put(w)
}

// pageWriter is the visitor of a read in progress. It writes the items of the read to pages.
type pageWriter struct {
	s    *Server
	to   transport.Responder
	page []byte
	// items and rows are the numbers of sent items and rows. last is the maximum number of useful rows, or 0 if this
	// number is unknown.
	items      uint64
	rows, last int
	flushAt    int
	canceled   atomic.Bool
	lost       error // set if the response can no longer be sent
	query      command.Read
}

func (s *Server) read(ctx context.Context, target Target, from topology.NodeID, r *reader, t *trace.Trace,
	to transport.Responder) {
	name := readID{from, r.Uint()}
	p := s.reads.Get().(*pageWriter)
	if err := command.DecodeRead(&p.query, r.Rest()); err != nil || r.Err() != nil {
		to.Fail(ErrMalformed)
		return
	}
	p.s, p.to, p.page, p.items, p.rows, p.lost = s, to, head(p.page[:0], t, false), 0, 0, nil
	p.last, p.flushAt = 0, 0
	p.canceled.Store(false)
	if n := p.query.Limit; n > 0 && p.query.Key != nil {
		p.last = n + 1 // an additional row indicates that more rows exist
	} else if n > 0 {
		p.flushAt = n + 1
	}
	s.mu.Lock()
	s.open[name] = p
	s.mu.Unlock()
	err := target.Read(ctx, &p.query, p)
	s.mu.Lock()
	if s.open[name] == p {
		delete(s.open, name)
	}
	s.mu.Unlock()
	switch {
	case p.lost != nil:
		to.Fail(p.lost)
	case err != nil:
		p.page = tail(AppendError(append(p.page, itemFailed), err), t)
		_ = to.End(p.page)
	default:
		p.page = tail(binary.AppendUvarint(append(p.page, itemEnd), p.items), t)
		_ = to.End(p.page)
	}
	if cap(p.page) > bufferMax {
		p.page = nil
	}
	p.query = command.Read{Slices: p.query.Slices[:0]}
	p.to, p.lost = nil, nil
	s.reads.Put(p)
}

// cancel ends a read early because the caller needs no more rows.
func (s *Server) cancel(name readID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.open[name]; p != nil {
		p.canceled.Store(true)
	}
}
