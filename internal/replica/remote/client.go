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
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Wait bounds a request whose context has no deadline.
const Wait = 10 * time.Second

// Carrier brings requests to other nodes and their answers back; Over makes one of a *transport.Transport.
type Carrier interface {
	Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error)
	Stream(ctx context.Context, to topology.NodeID, request []byte) (Stream, error)
	Begin(p *transport.Pending, to topology.NodeID, until time.Time, request []byte, answer transport.Answer) error
}

// Stream is an answer in pages; *transport.Stream is one.
type Stream interface {
	Next() ([]byte, error)
	Close()
}

// Over makes a transport a Carrier.
func Over(t *transport.Transport) Carrier { return carrier{t} }

type carrier struct{ *transport.Transport }

// Stream implements Carrier.
func (c carrier) Stream(ctx context.Context, to topology.NodeID, request []byte) (Stream, error) {
	s, err := c.Transport.Stream(ctx, to, request)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Client asks replicas on other nodes. It is safe for concurrent use.
type Client struct {
	t       Carrier
	sched   *sched.Scheduler
	buffers buffers
	writes  sync.Pool // *write
	reads   sync.Pool // *pages
	// marks numbers the reads, so that one can be named.
	marks atomic.Uint64
}

// New makes a client over a transport, which outlives all that is asked through it. The scheduler is nil outside
// simulations.
func New(t Carrier, s *sched.Scheduler) *Client {
	c := &Client{t: t, sched: s}
	c.marks.Store(uint64(s.Wall().UnixNano())) // what a process before this one asked for is another read
	c.writes.New = func() any { return &write{c: c} }
	c.reads.New = func() any { return new(pages) }
	return c
}

// Replica is a replica on another node. It holds no state: making one is cheap.
type Replica struct {
	c    *Client
	node topology.NodeID
	id   topology.PartitionID
	// via is the node that passes requests on, zero where they go straight to node.
	via topology.NodeID
}

// Replica names the replica of a physical partition on a node.
func (c *Client) Replica(node topology.NodeID, id topology.PartitionID) *Replica {
	return &Replica{c: c, node: node, id: id}
}

// ID is the physical partition, Node where the replica is.
func (r *Replica) ID() topology.PartitionID { return r.id }

// Node is where the replica is.
func (r *Replica) Node() topology.NodeID { return r.node }

// Indexed is what a completion may implement to learn the index at which its write is in the log: At is called before a
// good end is told.
type Indexed interface{ At(index uint64) }

// Write sends a mutation and returns; it copies all of it. The completion learns all errors, as from
// partition.Replica.Write; the operands stay as they are, the leader stamps its own. The context gives the deadline and
// the trace; its end does not end the wait.
func (r *Replica) Write(ctx context.Context, m *command.Mutation, done command.Completion) error {
	w := r.begin(ctx, kindWrite)
	w.done = done
	*w.request = command.AppendMutation(*w.request, m)
	w.send()
	return nil
}

// Decide sends a conditional and returns; see Write and partition.Replica.Decide.
func (r *Replica) Decide(ctx context.Context, c *command.Conditional, done command.DecisionCompletion) error {
	w := r.begin(ctx, kindDecide)
	w.decided = done
	*w.request = command.AppendConditional(*w.request, c)
	w.send()
	return nil
}

// WriteAll sends several mutations of the partition that are applied as one; see Write and partition.Replica.WriteAll.
func (r *Replica) WriteAll(ctx context.Context, parts []partition.Part, done command.Completion) error {
	w := r.begin(ctx, kindWriteAll)
	w.done = done
	*w.request = appendParts(*w.request, parts)
	w.send()
	return nil
}

// Truncate sends a truncation and returns; see partition.Replica.Truncate.
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

// Require waits until the partition refuses mutations of older revisions; see partition.Replica.Require.
func (r *Replica) Require(ctx context.Context, x partition.Extent, revision uint64) error {
	_, err := r.number(ctx, kindRequire, func(b []byte) []byte {
		return binary.AppendUvarint(appendExtent(b, x), revision)
	})
	return err
}

// Last asks for the highest stamp that the partition has given; see partition.Replica.Last.
func (r *Replica) Last(ctx context.Context, x partition.Extent, who fairshare.Principal) (stamp int64, err error) {
	n, err := r.number(ctx, kindLast, func(b []byte) []byte { return appendClaimant(appendExtent(b, x), who) })
	return int64(n), err
}

// Change changes records of the meta partition; see partition.Replica.Change. ErrUncertain leaves open whether it did.
func (r *Replica) Change(ctx context.Context, c command.Records) (version uint64, err error) {
	return r.number(ctx, kindChange, func(b []byte) []byte { return command.AppendRecords(b, &c) })
}

// number asks for what is answered by a number, and waits.
func (r *Replica) number(ctx context.Context, kind byte, body func([]byte) []byte) (uint64, error) {
	t := trace.From(ctx)
	request := r.c.buffers.get()
	defer r.c.buffers.put(request)
	*request = body(appendHead(r.appendWay(*request), kind, r.id, t))
	ctx, cancel := r.c.bounded(ctx)
	defer cancel()
	b, err := r.c.t.Call(ctx, r.next(), *request)
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

// bounded gives a context a deadline if it has none.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return c.sched.WithTimeout(ctx, Wait)
}

// write is a request under way that nobody waits for.
type write struct {
	c        *Client
	call     transport.Pending
	node     topology.NodeID
	kind     byte
	request  *[]byte
	deadline time.Time
	trace    *trace.Trace
	done     command.Completion
	decided  command.DecisionCompletion
}

func (r *Replica) begin(ctx context.Context, kind byte) *write {
	w := r.c.writes.Get().(*write)
	w.node, w.kind, w.trace, w.request = r.next(), kind, trace.From(ctx), r.c.buffers.get()
	*w.request = appendHead(r.appendWay(*w.request), kind, r.id, w.trace)
	var ok bool
	if w.deadline, ok = ctx.Deadline(); !ok {
		w.deadline = r.c.sched.Now().Add(Wait)
	}
	return w
}

// send sends the request, which the transport copies.
func (w *write) send() {
	request, c := w.request, w.c // w may be used again before Begin returns
	w.request = nil
	if err := c.t.Begin(&w.call, w.node, w.deadline, *request, w); err != nil {
		// Whoever asked is told on another goroutine, as everybody is: it may hold what its completion needs.
		c.sched.Go(func() { w.Answered(nil, err) })
	}
	c.buffers.put(request)
}

// Answered implements transport.Answer: it tells the completion.
func (w *write) Answered(b []byte, err error) {
	w.asked()
	c, t, done, decided, kind := w.c, w.trace, w.done, w.decided, w.kind
	w.trace, w.done, w.decided = nil, nil, nil
	c.writes.Put(w)
	var a reader
	if err == nil {
		a, err = open(b, t)
	} else {
		err = lost(err)
	}
	if kind == kindDecide {
		endDecide(a, err, t, decided)
		return
	}
	var index uint64
	var price ru.Units
	if err == nil {
		index, price = a.end()
		err = a.close(t)
	}
	if err == nil && index > 0 {
		if i, ok := done.(Indexed); ok {
			i.At(index)
		}
	}
	if err == nil {
		ru.Tell(done, price)
	}
	done.Done(err)
}

func endDecide(a reader, err error, t *trace.Trace, done command.DecisionCompletion) {
	if err != nil {
		done.Decided(nil, err)
		return
	}
	index, encoded := a.Uint(), a.Bytes()
	d := new(command.Decision)
	if err = a.close(t); err == nil {
		err = command.DecodeDecision(d, encoded)
	}
	if err != nil {
		done.Decided(nil, unreadable(err)) // what was done cannot be told
		return
	}
	if i, ok := done.(Indexed); ok && index > 0 {
		i.At(index)
	}
	done.Decided(d, nil)
}

// lost turns an error of the transport into what it means (RM2).
func lost(err error) error {
	switch {
	case errors.Is(err, transport.ErrUnreachable), errors.Is(err, transport.ErrBusy),
		errors.Is(err, transport.ErrTooLong):
		return err
	}
	if e, ok := errors.AsType[*transport.RemoteError](err); ok {
		return &Failure{e.Text}
	}
	return fmt.Errorf("%w: %w", partition.ErrUncertain, err)
}

// unreadable is an answer that nobody can read: the outcome is not known.
func unreadable(err error) error { return fmt.Errorf("%w: %w", partition.ErrUncertain, err) }

// open reads the head of an answer. An error of the other node is returned when its trace was taken.
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

// close takes the trace events after an answer and checks that nothing follows.
func (a *reader) close(t *trace.Trace) error {
	if a.Err() == nil && len(a.Rest()) > 0 {
		a.takeTrace(t)
	}
	if err := a.End(); err != nil {
		return unreadable(err)
	}
	return nil
}

// appendParts and takeParts carry the parts of WriteAll: each a mutation, or a conditional without conditions.
func appendParts(dst []byte, parts []partition.Part) []byte {
	dst = appendInt(dst, len(parts))
	for i := range parts {
		// The length comes first and is not known: it is written with a fixed width.
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
