// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// signalWaiter is a local replica that waits longer than the write timeout and then reads the command again.
type signalWaiter struct {
	*fake
	deadline time.Time
	changed  bool
}

func (signalWaiter) Leading() bool                     { return true }
func (w signalWaiter) Leader() (topology.NodeID, bool) { return w.node, true }

func (w *signalWaiter) wait(ctx context.Context, encode func() []byte) error {
	before := encode()
	w.deadline, _ = ctx.Deadline()
	time.Sleep(3 * time.Second)
	w.changed = w.changed || !bytes.Equal(before, encode())
	return &partition.LatchTimeout{Cause: context.DeadlineExceeded}
}

func (w *signalWaiter) Write(ctx context.Context, m *command.Mutation, _ command.Completion) error {
	return w.wait(ctx, func() []byte { return command.AppendMutation(nil, m) })
}

func (w *signalWaiter) ConditionalWrite(ctx context.Context, c *command.Conditional, _ command.Completion) error {
	return w.wait(ctx, func() []byte { return command.AppendConditional(nil, c) })
}

// spoiler is a completion that immediately overwrites the memory of the mutations.
type spoiler struct {
	m    *command.Mutation
	done chan error
}

func (s *spoiler) Done(o command.Outcome) {
	clear(s.m.Key)
	clear(s.m.Ops[0].Operand)
	s.done <- o.Err
}

// TestTimeoutWhileAsking checks a write whose deadline passes while a local replica waits. The write must not complete
// before the call of the replica has returned, because the replica reads the memory of the write. The replica must
// receive the deadline.
func TestTimeoutWhileAsking(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		w := &signalWaiter{fake: &fake{f, node(1), 1}}
		c.cluster.local = localReplicas(func(topology.PartitionID) Local { return w })
		for name, send := range map[string]func(*spoiler){
			"write": func(s *spoiler) {
				ms := []command.Mutation{put("k", "c", 1)}
				s.m = &ms[0]
				c.Write(t.Context(), ms, WriteOptions{}, s)
			},
			"decide": func(s *spoiler) {
				u := add("k", "n", 1)
				u.Mutation.Ops = put("k", "c", 1).Ops
				s.m = &u.Mutation
				c.ConditionalWrite(t.Context(), u, WriteOptions{Type: "COUNTER"}, s)
			},
		} {
			w.changed = false
			s := &spoiler{done: make(chan error, 1)}
			until := time.Now().Add(c.opts.WriteTimeout)
			send(s)
			var late *dberr.WriteTimeout
			if err := <-s.done; !errors.As(err, &late) {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(5 * time.Second)
			if w.changed {
				t.Errorf("%s: the replica was left with another command", name)
			}
			if !w.deadline.Equal(until) {
				t.Errorf("%s: the replica may wait until %v, the write until %v", name, w.deadline, until)
			}
		}
	})
}

// TestTimeoutOfTheClient checks that a client timeout can shorten the coordinator's timeout but cannot extend it. A
// short timeout must not wait for the longer timeouts of earlier requests.
func TestTimeoutOfTheClient(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		f.script = func(*asked) *verdict { return &verdict{hang: true} }
		for _, one := range []struct{ timeout, want time.Duration }{
			{0, c.opts.WriteTimeout},
			{100 * time.Millisecond, 100 * time.Millisecond},
			{time.Hour, c.opts.WriteTimeout},
		} {
			behind := &spoiler{done: make(chan error, 1)}
			first := []command.Mutation{put("k", "c", 1)}
			behind.m = &first[0]
			began := time.Now()
			c.Write(t.Context(), first, WriteOptions{}, behind)
			for name, send := range map[string]func(*spoiler){
				"write": func(s *spoiler) {
					ms := []command.Mutation{put("k", "c", 1)}
					s.m = &ms[0]
					c.Write(t.Context(), ms, WriteOptions{Timeout: one.timeout}, s)
				},
				"decide": func(s *spoiler) {
					u := add("k", "n", 1)
					u.Mutation.Ops = put("k", "c", 1).Ops
					s.m = &u.Mutation
					c.ConditionalWrite(t.Context(), u, WriteOptions{Type: "COUNTER", Timeout: one.timeout}, s)
				},
			} {
				s := &spoiler{done: make(chan error, 1)}
				sent := time.Now()
				send(s)
				var late *dberr.WriteTimeout
				if err := <-s.done; !errors.As(err, &late) {
					t.Errorf("%s with %v: %v", name, one.timeout, err)
				}
				if took := time.Since(sent); took != one.want {
					t.Errorf("%s with %v took %v, want %v", name, one.timeout, took, one.want)
				}
			}
			<-behind.done
			if took := time.Since(began); took < c.opts.WriteTimeout {
				t.Errorf("the write without a timeout took %v", took)
			}
		}
		began := time.Now()
		q := &command.Read{Table: table, Key: []byte("k"), Token: put("k", "c", 1).Token, Level: dberr.Quorum,
			Deadline: began.Add(70 * time.Millisecond)}
		var late *dberr.ReadTimeout
		if err := c.Read(t.Context(), q, nil); !errors.As(err, &late) {
			t.Errorf("read: %v", err)
		}
		if took := time.Since(began); took != 70*time.Millisecond {
			t.Errorf("the read took %v", took)
		}
	})
}
