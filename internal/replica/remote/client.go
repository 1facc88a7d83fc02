// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Wait is the timeout of a request whose context has no deadline.
const Wait = 10 * time.Second

// Transport sends requests to other nodes and receives their responses. *transport.Transport implements it.
type Transport interface {
	Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error)
	Stream(ctx context.Context, to topology.NodeID, request []byte) (transport.Stream, error)
	Begin(p *transport.Pending, to topology.NodeID, until time.Time, request []byte,
		answer transport.ResponseHandler) error
}

// Client sends requests to replicas on other nodes. It is safe for concurrent use.
type Client struct {
	t       Transport
	sched   *sched.Scheduler
	buffers buffers
	writes  sync.Pool // pool of *write
	reads   sync.Pool // pool of *pageReader
	// marks is the number of the last read. The numbers identify reads.
	marks atomic.Uint64
}

// New returns a client that uses a transport. The transport must not be closed before all requests have ended. The
// scheduler is nil outside simulations.
func New(t Transport, s *sched.Scheduler) *Client {
	c := &Client{t: t, sched: s}
	c.marks.Store(uint64(s.Wall().UnixNano())) // not 0, because numbers of an earlier process must not be reused
	c.writes.New = func() any { return &write{c: c} }
	c.reads.New = func() any { return new(pageReader) }
	return c
}

// Replica is a replica on another node. It has no state.
type Replica struct {
	c    *Client
	node topology.NodeID
	id   topology.PartitionID
	// via is the node that relays requests. It is zero if requests are sent directly to node.
	via topology.NodeID
	// epochs is not nil if the node of the replica forwards requests to the leader.
	epochs Epochs
}

// Replica returns the replica of a physical partition on a node.
func (c *Client) Replica(node topology.NodeID, id topology.PartitionID) *Replica {
	return &Replica{c: c, node: node, id: id}
}

// ID returns the physical partition.
func (r *Replica) ID() topology.PartitionID { return r.id }

// Write sends a mutation without waiting for the response. It copies the mutation and does not modify the operands. The
// completion receives all errors that partition.Replica.Write can return. The context provides the deadline and the
// trace. Canceling the context does not end the request.
func (r *Replica) Write(ctx context.Context, m *command.Mutation, done command.Completion) error {
	w := r.begin(ctx, kindWrite)
	w.done = done
	*w.request = command.AppendMutation(*w.request, m)
	w.send()
	return nil
}

// ConditionalWrite sends a conditional write without waiting for the response. See Write and
// partition.Replica.ConditionalWrite.
func (r *Replica) ConditionalWrite(ctx context.Context, c *command.Conditional, done command.Completion) error {
	w := r.begin(ctx, kindConditionalWrite)
	w.done = done
	*w.request = command.AppendConditional(*w.request, c)
	w.send()
	return nil
}

// WriteAll sends several mutations, which the partition applies atomically, without waiting for the response. See Write
// and partition.Replica.WriteAll.
func (r *Replica) WriteAll(ctx context.Context, parts []partition.Part, done command.Completion) error {
	w := r.begin(ctx, kindWriteAll)
	w.done = done
	*w.request = appendParts(*w.request, parts)
	w.send()
	return nil
}

// Truncate sends a truncation without waiting for the response. See partition.Replica.Truncate.
func (r *Replica) Truncate(ctx context.Context, x partition.Extent, t partition.Truncation,
	done command.Completion) error {
	kind := kindTruncate
	if t.Attempt != nil {
		kind = kindTruncateOnce
	}
	w := r.begin(ctx, kind)
	w.done = done
	*w.request = appendInt(appendExtent(*w.request, x), len(t.Indexes))
	for _, i := range t.Indexes {
		*w.request = binary.AppendUvarint(*w.request, uint64(i))
	}
	if t.Attempt != nil {
		*w.request = command.AppendMutation(*w.request, t.Attempt)
	}
	w.send()
	return nil
}

// Require waits until the partition rejects mutations of older revisions. See partition.Replica.Require.
func (r *Replica) Require(ctx context.Context, x partition.Extent, revision uint64) error {
	_, err := r.number(ctx, kindRequire, func(b []byte) []byte {
		return binary.AppendUvarint(appendExtent(b, x), revision)
	})
	return err
}

// Last returns a timestamp that is not lower than any timestamp of the partition. See partition.Replica.Last.
func (r *Replica) Last(ctx context.Context, x partition.Extent, who fairshare.Principal) (stamp int64, err error) {
	n, err := r.number(ctx, kindLast, func(b []byte) []byte { return appendPrincipal(appendExtent(b, x), who) })
	return int64(n), err
}

// Change changes records of the meta partition. See partition.Replica.Change. If Change returns ErrUncertain, the
// records may have been changed.
func (r *Replica) Change(ctx context.Context, c command.Records) (version uint64, err error) {
	return r.number(ctx, kindChange, func(b []byte) []byte { return command.AppendRecords(b, &c) })
}

// number sends a request whose response is a number, and waits for the response.
func (r *Replica) number(ctx context.Context, kind byte, body func([]byte) []byte) (uint64, error) {
	t := trace.From(ctx)
	request := r.c.buffers.get()
	defer r.c.buffers.put(request)
	*request = body(appendHead(r.appendRelayHead(*request), kind, r.id, t))
	ctx, cancel := r.c.bounded(ctx)
	defer cancel()
	b, err := r.c.t.Call(ctx, r.firstHop(), *request)
	if err != nil {
		return 0, lost(err)
	}
	a, err := open(b, t)
	if err != nil {
		return 0, err
	}
	n := a.Uint()
	return n, a.close(t)
}

// bounded returns a context with a deadline. If ctx has no deadline, the deadline is after Wait.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return c.sched.WithTimeout(ctx, Wait)
}

// write is an asynchronous request.
type write struct {
	c        *Client
	call     transport.Pending
	node     topology.NodeID
	kind     byte
	request  *[]byte
	deadline time.Time
	trace    *trace.Trace
	done     command.Completion
}

func (r *Replica) begin(ctx context.Context, kind byte) *write {
	w := r.c.writes.Get().(*write)
	w.node, w.kind, w.trace, w.request = r.firstHop(), kind, trace.From(ctx), r.c.buffers.get()
	*w.request = appendHead(r.appendRelayHead(*w.request), kind, r.id, w.trace)
	var ok bool
	if w.deadline, ok = ctx.Deadline(); !ok {
		w.deadline = r.c.sched.Now().Add(Wait)
	}
	return w
}

// send sends the request. The transport copies the request.
func (w *write) send() {
	request, c := w.request, w.c // w may be reused before Begin returns
	w.request = nil
	if err := c.t.Begin(&w.call, w.node, w.deadline, *request, w); err != nil {
		// The completion must be called on another goroutine, because the caller may hold resources that the completion
		// needs.
		c.sched.Go(func() { w.HandleResponse(nil, err) })
	}
	c.buffers.put(request)
}

// HandleResponse implements transport.ResponseHandler. It calls the completion of the write.
func (w *write) HandleResponse(b []byte, err error) {
	w.checkUnanswered()
	c, t, done, kind := w.c, w.trace, w.done, w.kind
	w.trace, w.done = nil, nil
	c.writes.Put(w)
	if err != nil {
		done.Done(command.Failed(lost(err)))
		return
	}
	o, err := readOutcome(b, t, kind)
	if err != nil {
		o = command.Failed(err)
	}
	done.Done(o)
}

// readOutcome decodes the response to a write.
func readOutcome(b []byte, t *trace.Trace, kind byte) (command.Outcome, error) {
	a, err := open(b, t)
	if err != nil {
		return command.Outcome{}, err
	}
	index := a.Uint()
	if kind != kindConditionalWrite {
		return command.Outcome{Index: index, Charge: a.charge()}, a.close(t)
	}
	encoded := a.Bytes()
	d := new(command.CASResult)
	if err = a.close(t); err == nil {
		err = command.DecodeCASResult(d, encoded)
	}
	if err != nil {
		return command.Outcome{}, unreadable(err) // the outcome of the write is unknown
	}
	return command.Decided(d, index), nil
}

// lost converts an error of the transport to an error of package partition (RM2).
func lost(err error) error {
	switch {
	case errors.Is(err, transport.ErrUnreachable), errors.Is(err, transport.ErrBusy),
		errors.Is(err, transport.ErrTooLong):
		return err
	}
	if e, ok := errors.AsType[*transport.RemoteError](err); ok {
		return &Failure{e.Text}
	}
	if errors.Is(err, transport.ErrUnknownCall) {
		return &Failure{err.Error()}
	}
	return fmt.Errorf("%w: %w", partition.ErrUncertain, err)
}

// unreadable returns the error for a response that cannot be decoded. The outcome of such a request is unknown.
func unreadable(err error) error { return fmt.Errorf("%w: %w", partition.ErrUncertain, err) }

// open decodes the head of a response. If the response contains an error of the other node, open adds the trace events
// and returns the error.
func open(b []byte, t *trace.Trace) (reader, error) {
	a := newReader(b)
	v, flags := a.Byte(), a.Byte()
	if a.Err() != nil || v == 0 || v > version {
		return a, unreadable(ErrMalformed)
	}
	if flags&answerFailed == 0 {
		return a, nil
	}
	err := a.failure()
	if e := a.close(t); e != nil {
		return a, e
	}
	return a, err
}

// close adds the trace events at the end of a response, and checks that nothing follows them.
func (a *reader) close(t *trace.Trace) error {
	if a.Err() == nil && len(a.Rest()) > 0 {
		a.takeTrace(t)
	}
	if err := a.End(); err != nil {
		return unreadable(err)
	}
	return nil
}

// appendParts encodes the parts of WriteAll. Each part is a mutation or a conditional without conditions.
func appendParts(dst []byte, parts []partition.Part) []byte {
	dst = appendInt(dst, len(parts))
	for i := range parts {
		// The length precedes the part. It has a fixed width because it is not known yet.
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0, codec.Bit(parts[i].Updates != nil))
		if u := parts[i].Updates; u != nil {
			dst = command.AppendConditional(dst, u)
		} else {
			dst = command.AppendMutation(dst, parts[i].Mutation)
		}
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-5))
	}
	return dst
}

func (r *reader) takeParts() ([]partition.Part, error) {
	n := r.Count(5)
	parts := make([]partition.Part, 0, n)
	for range n {
		head := r.Take(5)
		if head == nil {
			return nil, ErrMalformed
		}
		body := r.Take(uint64(binary.BigEndian.Uint32(head)))
		if r.Err() != nil || head[4] > 1 {
			return nil, ErrMalformed
		}
		var p partition.Part
		var err error
		if head[4] == 1 {
			p.Updates = new(command.Conditional)
			err = command.DecodeConditional(p.Updates, body)
			p.Mutation = &p.Updates.Mutation
		} else {
			p.Mutation = new(command.Mutation)
			err = command.DecodeMutation(p.Mutation, body)
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, r.End()
}
