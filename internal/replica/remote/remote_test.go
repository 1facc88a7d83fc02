// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(i int) topology.NodeID { return topology.NodeID{byte(i)} }

// fake is the replica of partition 5 on the other node. Tests set the responses of the fake.
type fake struct {
	mu     sync.Mutex
	err    error
	async  bool // the completion receives the error
	hang   bool
	index  uint64
	charge ru.Units
	note   string // added to the trace
	rows   func(command.Visitor) error
	got    []any
	passed int
	parts  int
}

func (f *fake) heard(ctx context.Context, what any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, what)
	if f.note != "" {
		trace.From(ctx).Add(f.note)
	}
	if f.async {
		return nil
	}
	return f.err
}

func (f *fake) end(done command.Completion, err error) error {
	switch {
	case f.hang:
		return nil
	case err != nil:
		return err
	}
	go func() {
		if f.err != nil {
			done.Done(command.Failed(f.err))
			return
		}
		done.Done(command.Outcome{Index: f.index, Charge: int64(f.charge)})
	}()
	return nil
}

func (f *fake) Write(ctx context.Context, m *command.Mutation, done command.Completion) error {
	return f.end(done, f.heard(ctx, command.AppendMutation(nil, m)))
}

func (f *fake) WriteAll(ctx context.Context, parts []partition.Part, done command.Completion) error {
	f.parts = len(parts)
	return f.end(done, f.heard(ctx, appendParts(nil, parts)))
}

func (f *fake) Truncate(ctx context.Context, x partition.Extent, t partition.Truncation,
	done command.Completion) error {
	if t.Attempt != nil {
		a := t.Attempt
		return f.end(done, f.heard(ctx, heardOf(x, fmt.Sprint(t.Indexes, a.Dedupe.Sequence, a.Retried, a.Known))))
	}
	return f.end(done, f.heard(ctx, heardOf(x, t.Indexes)))
}

func (f *fake) ConditionalWrite(ctx context.Context, c *command.Conditional, done command.Completion) error {
	err := f.heard(ctx, command.AppendConditional(nil, c))
	if err != nil || f.hang {
		return err
	}
	go func() {
		if f.err != nil {
			done.Done(command.Failed(f.err))
			return
		}
		d := &command.CASResult{Applied: true, Timestamp: 9, Charge: int64(f.charge),
			Found: []*row.Row{nil, {Live: true, Cells: []row.Cell{{Column: 1, Value: make([]byte, 10<<10)}}}}}
		done.Done(command.Decided(d, f.index))
	}()
	return nil
}

func (f *fake) Require(ctx context.Context, x partition.Extent, revision uint64) error {
	return f.heard(ctx, heardOf(x, revision))
}

// heardOf is a command for a whole partition that a fake has received.
func heardOf(x partition.Extent, v any) string { return fmt.Sprintf("%d %s %v", x.Epoch, x.Span, v) }

func (f *fake) Last(ctx context.Context, x partition.Extent, who fairshare.Principal) (int64, error) {
	return -42, f.heard(ctx, heardOf(x, who))
}

func (f *fake) Change(ctx context.Context, c command.Records) (uint64, error) {
	return 8, f.heard(ctx, command.AppendRecords(nil, &c))
}

func (f *fake) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	if err := f.heard(ctx, command.AppendRead(nil, c)); err != nil {
		return err
	}
	if f.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := f.rows(&counting{v, &f.passed}); err != nil {
		return err
	}
	return f.err
}

// counting is a visitor that counts its calls.
type counting struct {
	command.Visitor
	n *int
}

func (c *counting) Row(clustering []byte, r *row.Row) (command.Step, error) {
	*c.n++
	return c.Visitor.Row(clustering, r)
}

func (c *counting) Passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	return command.Passed(c.Visitor, tok, key, looked)
}

func (c *counting) PushedDown(f *command.PushdownResult) (command.Step, error) {
	return c.Visitor.(command.PushdownVisitor).PushedDown(f)
}

func (c *counting) Lent(u ru.Units) { c.Visitor.(partition.Borrower).Lent(u) }

// nodePair is a pair of nodes. The fake is on node 1, and node 2 sends the requests.
type nodePair struct {
	*fake
	net     *memnet.Network
	one     *transport.Transport
	server  *Server
	client  *Client
	replica *Replica
}

func withNodePair(t *testing.T, f func(t *testing.T, w *nodePair)) {
	synctest.Test(t, func(t *testing.T) {
		w := newNodePair(t)
		f(t, w)
	})
}

// oneTarget is a node whose replicas are all the same.
type oneTarget struct{ Target }

func (o oneTarget) target(topology.PartitionID) Target { return o.Target }

// fifthTarget is a node that has only a replica of partition 5.
type fifthTarget struct{ *fake }

func (f fifthTarget) target(id topology.PartitionID) Target {
	if id != 5 {
		return nil
	}
	return f.fake
}

func newNodePair(t testing.TB) *nodePair {
	w := &nodePair{fake: new(fake), net: memnet.New()}
	w.server = newServer(fifthTarget{w.fake})
	start := func(i int, h transport.CommandHandler) *transport.Transport {
		at := fmt.Sprint("host", i)
		tr, err := transport.New(transport.Self{Cluster: transport.ClusterID{1}, Node: node(i), Address: at},
			w.net.Dialler(at), transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := w.net.Listen(at)
		if err == nil {
			err = tr.Start(l, nil, h)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	w.one = start(1, w.server)
	two := start(2, nil)
	two.SetAddress(node(1), "host1")
	w.client = New(two, nil)
	w.replica = w.client.Replica(node(1), 5)
	return w
}

// awaited is a completion for which a test waits. It also requests the index.
type awaited struct {
	index uint64
	err   error
	d     *command.CASResult
	// charge is the cost of the write.
	charge ru.Units
	done   chan struct{}
}

func newAwaited() *awaited { return &awaited{done: make(chan struct{})} }

func (d *awaited) Done(o command.Outcome) {
	d.index, d.d, d.err, d.charge = o.Index, o.CAS, o.Err, ru.Units(o.Charge)
	close(d.done)
}

func (d *awaited) wait() *awaited {
	<-d.done
	return d
}

func mutation() *command.Mutation {
	var b row.Builder
	b.Reset(row.Unstamped)
	b.Cell(1, nil, []byte("v"), 0, row.NoExpiry)
	return &command.Mutation{
		Table: 7, Token: -3, Key: []byte("k"), Epoch: 4, SchemaVersion: 5,
		Dedupe: command.DedupeID{Coordinator: node(2), Sequence: 6}, Retried: true, Known: 70,
		Ops: []command.Op{{Clustering: []byte("c"), Operand: b.Append(nil)}},
	}
}

func conditional() *command.Conditional {
	return &command.Conditional{Mutation: *mutation(), Rows: []command.RowRef{{Clustering: []byte("c")}},
		Conditions: []command.Condition{{
			Operator: command.Equal, Column: 1, Type: &cqltype.Type{Kind: cqltype.Int}, Values: [][]byte{nil}}}}
}

// requests sends every kind of request except reads, and returns the outcome.
var requests = map[string]func(ctx context.Context, r *Replica) (out any, err error){
	"write": func(ctx context.Context, r *Replica) (any, error) {
		d := newAwaited()
		if err := r.Write(ctx, mutation(), d); err != nil {
			return nil, err
		}
		return d.wait().index, d.err
	},
	"decide": func(ctx context.Context, r *Replica) (any, error) {
		d := newAwaited()
		if err := r.ConditionalWrite(ctx, conditional(), d); err != nil {
			return nil, err
		}
		if d.wait(); d.d == nil {
			return nil, d.err
		}
		return fmt.Sprint(d.index, d.d.Applied, d.d.Timestamp, len(d.d.Found), len(d.d.Found[1].Cells[0].Value)), d.err
	},
	"write all": func(ctx context.Context, r *Replica) (any, error) {
		d := newAwaited()
		u := conditional()
		if err := r.WriteAll(ctx, []partition.Part{{Mutation: mutation()}, {Mutation: &u.Mutation, Updates: u}},
			d); err != nil {
			return nil, err
		}
		return d.wait().index, d.err
	},
	"truncate": func(ctx context.Context, r *Replica) (any, error) {
		d := newAwaited()
		if err := r.Truncate(ctx, extent, partition.Truncation{Indexes: []uint32{3, 1 << 20}}, d); err != nil {
			return nil, err
		}
		return d.wait().index, d.err
	},
	"truncate once": func(ctx context.Context, r *Replica) (any, error) {
		d := newAwaited()
		a := &command.Mutation{Dedupe: mutation().Dedupe, Retried: true, Known: 70}
		if err := r.Truncate(ctx, extent, partition.Truncation{Indexes: []uint32{3}, Attempt: a}, d); err != nil {
			return nil, err
		}
		return d.wait().index, d.err
	},
	"require": func(ctx context.Context, r *Replica) (any, error) { return nil, r.Require(ctx, extent, 11) },
	"last": func(ctx context.Context, r *Replica) (any, error) {
		return r.Last(ctx, extent, fairshare.Principal{User: 1})
	},
	"change": func(ctx context.Context, r *Replica) (any, error) {
		return r.Change(ctx,
			command.Records{Expect: 3, Put: []command.Record{{Key: []byte("k")}, {Key: []byte("l"), Value: []byte{}}}})
	},
}

// extent is the span for which commands for a whole partition are planned.
var extent = partition.Extent{Epoch: 7, Span: keys.Span{Table: 600, Begin: []byte{1}, End: []byte{2}}}

// TestRequests checks that every request arrives unchanged, and that its response, error, and trace are returned.
func TestRequests(t *testing.T) {
	u := conditional()
	for name, want := range map[string]struct{ got, out any }{
		"write":  {command.AppendMutation(nil, mutation()), uint64(77)},
		"decide": {command.AppendConditional(nil, conditional()), "77 true 9 2 10240"},
		"write all": {appendParts(nil, []partition.Part{{Mutation: mutation()}, {Mutation: &u.Mutation, Updates: u}}),
			uint64(77)},
		"truncate":      {"7 600[01,02) [3 1048576]", uint64(77)},
		"truncate once": {"7 600[01,02) [3] 6 true 70", uint64(77)},
		"require":       {"7 600[01,02) 11", nil},
		"last":          {"7 600[01,02) {1 0 false}", int64(-42)},
		"change": {command.AppendRecords(nil,
			&command.Records{Expect: 3, Put: []command.Record{{Key: []byte("k")},
				{Key: []byte("l"), Value: []byte{}}}}), uint64(8)},
	} {
		t.Run(name, func(t *testing.T) {
			withNodePair(t, func(t *testing.T, w *nodePair) {
				w.index, w.note = 77, "far away"
				tr := trace.New([16]byte{1}, time.Now())
				out, err := requests[name](trace.With(t.Context(), tr), w.replica)
				if err != nil || out != want.out {
					t.Errorf("got %v, %v, want %v", out, err, want.out)
				}
				if diff := cmp.Diff(want.got, w.got[0]); diff != "" {
					t.Errorf("what arrived: %s", diff)
				}
				if e := tr.Events(); len(e) != 1 || e[0].Activity != "far away" {
					t.Errorf("trace: %v", e)
				}
				// If the request has no trace, no events are kept. Other partitions do not exist on the node.
				if _, err := requests[name](t.Context(), w.client.Replica(node(1), 6)); !errors.Is(err,
					partition.ErrClosed) {
					t.Errorf("a missing partition: %v", err)
				}
				for _, w.async = range []bool{false, true} {
					if w.async && (name == "require" || name == "last" || name == "change") {
						continue
					}
					w.err = &partition.NotLeader{Partition: 5, Leader: node(9)}
					if _, err := requests[name](trace.With(t.Context(), tr), w.replica); !reflect.DeepEqual(err,
						w.err) {
						t.Errorf("an error, async %v: %v", w.async, err)
					}
				}
				if n := len(tr.Events()); n < 2 {
					t.Error("no trace of what failed")
				}
			})
		})
	}
}

// TestLostConnections checks that an unknown outcome is reported as uncertain, and that a request that did not arrive
// is not reported as uncertain.
func TestLostConnections(t *testing.T) {
	for name := range requests {
		t.Run(name, func(t *testing.T) {
			withNodePair(t, func(t *testing.T, w *nodePair) {
				w.replica.c.t.(*transport.Transport).SetAddress(node(3), "nowhere")
				if _, err := requests[name](t.Context(), w.client.Replica(node(3), 5)); !errors.Is(err,
					transport.ErrUnreachable) || errors.Is(err, partition.ErrUncertain) {
					t.Errorf("unreachable node: %v", err)
				}
				w.err = nil
				if name == "require" || name == "last" || name == "change" {
					return
				}
				w.hang = true
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				if _, err := requests[name](ctx, w.replica); !errors.Is(err, partition.ErrUncertain) ||
					time.Since(begin) != time.Second {
					t.Errorf("at the deadline: %v after %v", err, time.Since(begin))
				}
				time.AfterFunc(time.Second, func() { w.net.Drop("host2", "host1") })
				if _, err := requests[name](t.Context(), w.replica); !errors.Is(err, partition.ErrUncertain) {
					t.Errorf("a connection that is lost: %v", err)
				}
			})
		})
	}
}

// all contains errors of every type, with values in all their fields.
var all = []error{
	partition.ErrStaleSchema, partition.ErrUncertain, partition.ErrInProgress, partition.ErrClosed,
	partition.ErrUnconfirmed,
	&partition.NotLeader{Partition: 3, Leader: node(7)},
	&partition.NotLeader{},
	&partition.WrongRange{Partition: 3, Have: topology.Span{Begin: topology.Position{Ring: 1},
		Limit: topology.Position{Ring: 1 << 63, Key: []byte("k")}}, Epoch: 4, Moved: 5},
	&partition.Conflict{Version: 1 << 60},
	&dberr.Server{Message: "a"}, &dberr.Protocol{Message: "b"}, &dberr.BadCredentials{Message: "c"},
	&dberr.Unauthorized{Message: "d"},
	&dberr.Syntax{Message: "e"}, &dberr.Invalid{Message: "f"}, &dberr.Config{Message: "g"},
	&dberr.Truncate{Message: "h"},
	&dberr.AlreadyExists{Keyspace: "i", Table: "j", Message: "k"}, &dberr.Unprepared{ID: [16]byte{1, 2}},
	&dberr.Overloaded{Message: "l", RetryAfter: 3 * time.Second},
	&dberr.Unavailable{Level: dberr.LocalOne, Required: 3, Alive: 2},
	&dberr.WriteTimeout{Level: dberr.All, Received: 1, BlockFor: 2, WriteType: "CAS"},
	&dberr.ReadTimeout{Level: dberr.One, Received: 1, BlockFor: 2, DataPresent: true},
	&dberr.ReadFailure{Level: dberr.Two, Received: 1, BlockFor: 2, Failures: 3, DataPresent: true, Message: "m"},
	&dberr.WriteFailure{Level: dberr.Two, Received: 1, BlockFor: 2, Failures: 3, WriteType: "BATCH", Message: "n"},
	&dberr.FunctionFailure{Keyspace: "o", Function: "p", ArgTypes: []string{"int", "text"}, Message: "q"},
	&Failure{Text: "anything"}, &partition.DedupeUnknown{Epoch: 300},
}

// TestErrors checks that typed errors arrive as values and that other errors keep their text. All other input must be
// rejected.
func TestErrors(t *testing.T) {
	for _, err := range all {
		encoded := AppendError(nil, err)
		if got := DecodeError(encoded); !reflect.DeepEqual(got, err) {
			t.Errorf("%#v became %#v", err, got)
		}
		for i := range encoded {
			if got := DecodeError(encoded[:i]); !errors.Is(got, ErrMalformed) && i < len(encoded) &&
				reflect.DeepEqual(got, err) {
				t.Errorf("%d of the %d bytes of %v are accepted", i, len(encoded), err)
			}
		}
	}
	carry := func(err error) error { return DecodeError(AppendError(nil, err)) }
	latch := carry(&partition.LatchTimeout{Cause: context.DeadlineExceeded})
	if e := (*partition.LatchTimeout)(nil); !errors.As(latch, &e) ||
		!strings.HasSuffix(latch.Error(), "deadline exceeded") {
		t.Error(latch)
	}
	if err := carry(fmt.Errorf("%w: disk", partition.ErrStopped)); !errors.Is(err, partition.ErrStopped) ||
		!strings.HasSuffix(err.Error(), ": disk") {
		t.Error(err)
	}
	if err := carry(fmt.Errorf("at %d: %w", 1, &dberr.Invalid{Message: "x"})); err.Error() != "at 1: x" {
		t.Error(err)
	}
	if err := DecodeError([]byte{200, 1, 2}); err == nil || errors.Is(err, ErrMalformed) {
		t.Errorf("an error of a newer version: %v", err)
	}
}

// FuzzDecodeError checks that no input makes DecodeError panic or return nil.
func FuzzDecodeError(f *testing.F) {
	for _, err := range all {
		f.Add(AppendError(nil, err))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if DecodeError(b) == nil {
			t.Error("no error")
		}
	})
}

// FuzzServe checks that no request makes the server panic, and that every request receives a response.
func FuzzServe(f *testing.F) {
	f.Add(command.AppendMutation(appendHead(nil, kindWrite, 5, nil), mutation()))
	f.Add(command.AppendConditional(appendHead(nil, kindConditionalWrite, 5, trace.New([16]byte{}, time.Now())),
		conditional()))
	f.Add(appendParts(appendHead(nil, kindWriteAll, 5, nil), []partition.Part{{Mutation: mutation()}}))
	f.Add(command.AppendRead(append(appendHead(nil, kindRead, 5, nil), 9), &command.Read{Key: []byte("k")}))
	f.Add(appendHead(nil, kindCancel, 5, nil))
	f.Add(command.AppendRecords(appendHead(nil, kindChange, 5, nil), &command.Records{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newServer(oneTarget{&fake{rows: func(v command.Visitor) error {
			_, err := v.Partition(1, nil, nil)
			return err
		}}})
		a := &answers{ended: make(chan struct{})}
		s.Serve(t.Context(), node(2), b, a)
		<-a.ended
		r, err := open(a.end, nil)
		_ = err
		var p pageReader
		p.begin(&command.Read{}, blind{})
		_, _ = p.take(&r)
	})
}

// answers is a transport.Responder that records the responses.
type answers struct {
	once  sync.Once
	end   []byte
	ended chan struct{}
}

func (a *answers) Page([]byte) error { return nil }
func (a *answers) End(b []byte) error {
	a.once.Do(func() { a.end = bytes.Clone(b); close(a.ended) })
	return nil
}
func (a *answers) Fail(error) { a.once.Do(func() { close(a.ended) }) }

type blind struct{}

func (blind) Partition(token.Token, []byte, *row.Row) (command.Step, error) { return command.More, nil }
func (blind) Row([]byte, *row.Row) (command.Step, error)                    { return command.More, nil }

// item is an argument of a visitor, which is a partition or one of its rows.
type item struct {
	Token token.Token
	Key   []byte
	Row   *row.Row // the static row if the item is a partition
	Of    bool     // the item is a row
	// Looked is the number of keys up to a position that the read has passed, or 0.
	Looked int
}

// scribe is a visitor that stores all items, and returns the results of step.
type scribe struct {
	items []item
	step  func(n int) (command.Step, error)
}

func (s *scribe) keep(i item, r *row.Row) (command.Step, error) {
	if r != nil {
		i.Row = &row.Row{Live: r.Live, Liveness: r.Liveness}
		for _, c := range r.Cells {
			c.Path, c.Value = bytes.Clone(c.Path), append([]byte{}, c.Value...)
			i.Row.Cells = append(i.Row.Cells, c)
		}
	}
	i.Key = append([]byte{}, i.Key...)
	s.items = append(s.items, i)
	if s.step == nil {
		return command.More, nil
	}
	return s.step(len(s.items))
}

func (s *scribe) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	return s.keep(item{Token: t, Key: key}, static)
}

func (s *scribe) Row(clustering []byte, r *row.Row) (command.Step, error) {
	return s.keep(item{Key: clustering, Of: true}, r)
}

func (s *scribe) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	return s.keep(item{Token: t, Key: key, Looked: looked}, nil)
}

// replay passes items to a visitor as a store does.
func replay(items []item) func(command.Visitor) error {
	return func(v command.Visitor) error {
		skip := false
		for _, i := range items {
			var s command.Step
			var err error
			switch {
			case i.Looked > 0:
				s, err = command.Passed(v, i.Token, i.Key, i.Looked)
			case !i.Of:
				s, err = v.Partition(i.Token, i.Key, i.Row)
			case skip:
				continue
			default:
				s, err = v.Row(i.Key, i.Row)
			}
			skip = s == command.NextPartition
			if s == command.Stop || err != nil {
				return err
			}
		}
		return nil
	}
}

func drawRow(t *rapid.T) *row.Row {
	r := &row.Row{Live: rapid.Bool().Draw(t, "live")}
	if r.Live {
		r.Liveness = row.Liveness{Timestamp: rapid.Int64().Draw(t, "at"), Expiry: row.NoExpiry}
		if rapid.Bool().Draw(t, "ttl") {
			r.Liveness.TTL, r.Liveness.Expiry = rapid.Int32().Draw(t, "ttl"), rapid.Int64().Draw(t, "expiry")
		}
	}
	column := uint32(0)
	for range rapid.IntRange(0, 5).Draw(t, "cells") {
		column += uint32(rapid.IntRange(0, 3).Draw(t, "column"))
		c := row.Cell{Column: column,
			Value:     make([]byte, rapid.SampledFrom([]int{0, 1, 1, 10, 10, 100, 100, 300}).Draw(t, "size")),
			Timestamp: r.Liveness.Timestamp, Expiry: row.NoExpiry}
		if rapid.Bool().Draw(t, "path") {
			c.Path = rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "path")
		}
		if rapid.Bool().Draw(t, "time") {
			c.Timestamp = rapid.Int64().Draw(t, "timestamp")
		}
		if rapid.Bool().Draw(t, "ttl") {
			c.TTL, c.Expiry = rapid.Int32().Draw(t, "ttl"), rapid.Int64().Draw(t, "expiry")
		}
		r.Cells = append(r.Cells, c)
	}
	return r
}

// TestReadIsAsHere checks that a read from another node delivers the same items as a local read. The test covers all
// rows and every item at which the visitor can stop or skip to the next partition.
func TestReadIsAsHere(t *testing.T) {
	w := newNodePair(t)
	w.server.page = 512
	rapid.Check(t, func(t *rapid.T) {
		var items []item
		for k := range rapid.IntRange(0, 5).Draw(t, "partitions") {
			i := item{Token: token.Token(rapid.Int64().Draw(t, "token")), Key: fmt.Append(nil, "key", k)}
			if rapid.Bool().Draw(t, "static") {
				i.Row = drawRow(t)
			}
			items = append(items, i)
			for c := range rapid.IntRange(0, 6).Draw(t, "rows") {
				items = append(items, item{Key: fmt.Append(nil, c), Row: drawRow(t), Of: true})
			}
			if rapid.Bool().Draw(t, "passed") {
				items = append(items, item{Token: i.Token, Key: fmt.Append(nil, "gone", k),
					Looked: rapid.IntRange(1, 9999).Draw(t, "looked")})
			}
		}
		stop, next := rapid.IntRange(1, 40).Draw(t, "stop"), rapid.IntRange(2, 9).Draw(t, "next")
		failure := errors.New("enough of this")
		fails := rapid.IntRange(0, 3).Draw(t, "fails") == 0
		step := func(n int) (command.Step, error) {
			switch {
			case n == stop && fails:
				return command.Stop, failure
			case n == stop:
				return command.Stop, nil
			case n%next == 0:
				return command.NextPartition, nil
			}
			return command.More, nil
		}
		here, there := &scribe{step: step}, &scribe{step: step}
		w.rows = replay(items)
		want := w.rows(here)
		got := w.replica.Read(context.Background(),
			&command.Read{Table: 7, Limit: rapid.IntRange(0, 3).Draw(t, "limit")}, there)
		if diff := cmp.Diff(here.items, there.items); diff != "" || want != got {
			t.Fatalf("%v, want %v: %s", got, want, diff)
		}
	})
}

// TestStopIsConfirmed checks that a read that could not be confirmed returns an error, even if the visitor stopped long
// before the confirmation failed. A visitor that stops must make the other node stop.
func TestStopIsConfirmed(t *testing.T) {
	withNodePair(t, func(t *testing.T, w *nodePair) {
		const rows = 100000
		w.rows = func(v command.Visitor) error {
			if s, err := v.Partition(1, []byte("k"), nil); s == command.Stop || err != nil {
				return err
			}
			r := &row.Row{Cells: []row.Cell{{Column: 1, Value: make([]byte, 1000), Expiry: row.NoExpiry}}}
			for range rows {
				if s, err := v.Row([]byte("c"), r); s == command.Stop || err != nil {
					return err
				}
			}
			return nil
		}
		w.async = true // the error follows the rows
		for _, w.err = range []error{nil, partition.ErrUnconfirmed} {
			w.passed = 0
			s := &scribe{step: func(n int) (command.Step, error) {
				if n == 100 {
					return command.Stop, nil
				}
				return command.More, nil
			}}
			if err := w.replica.Read(t.Context(), &command.Read{Table: 7}, s); !errors.Is(err, w.err) ||
				len(s.items) != 100 {
				t.Errorf("%v, want %v, %d items", err, w.err, len(s.items))
			}
			if w.passed > rows/10 {
				t.Errorf("the other node continued for %d rows", w.passed)
			}
		}
		if n := len(w.server.open); n != 0 {
			t.Errorf("%d reads are still open", n)
		}
		// The other node must apply a row limit within one partition.
		w.err, w.passed = nil, 0
		if err := w.replica.Read(t.Context(), &command.Read{Table: 7, Key: []byte("k"), Limit: 10},
			&scribe{}); err != nil || w.passed != 11 {
			t.Errorf("%v, %d rows for a limit of 10", err, w.passed)
		}
	})
}

// TestReadsEnd checks that a read ends with its context and with its connection, and that it can be repeated.
func TestReadsEnd(t *testing.T) {
	withNodePair(t, func(t *testing.T, w *nodePair) {
		w.hang = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := w.replica.Read(ctx, &command.Read{}, blind{}); !errors.Is(err, partition.ErrUncertain) ||
			time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		time.AfterFunc(time.Second, func() { w.net.Drop("host2", "host1") })
		if err := w.replica.Read(t.Context(), &command.Read{}, blind{}); !errors.Is(err, partition.ErrUncertain) {
			t.Error(err)
		}
		synctest.Wait()
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		if n := len(w.server.open); n != 0 {
			t.Errorf("%d reads are still open", n)
		}
	})
}
