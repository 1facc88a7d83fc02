// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// reuser is a completion whose owner immediately reuses the memory of the mutation, like a pool.
type reuser struct {
	m     *command.Mutation
	other []command.Op
	errs  *atomic.Int64
	done  chan struct{}
}

func (u *reuser) Done(o command.Outcome) {
	if o.Err != nil {
		u.errs.Add(1)
	}
	clear(u.m.Key)
	u.m.Ops = u.other
	u.done <- struct{}{}
}

// TestNothingAfterDone checks that no code reads a command after its completion. A later read could return parts of
// another command.
func TestNothingAfterDone(t *testing.T) {
	h := open(t, newStore(t), 1, Options{})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	other := make([]command.Op, 50)
	for i := range other {
		other[i] = put("other", 1).Ops[0]
	}
	var errs atomic.Int64
	var want int64
	u := &reuser{other: other, errs: &errs, done: make(chan struct{}, 1)}
	for i := range 20_000 {
		u.m = put("a key", int64(i))
		_, bytes := ru.Write(u.m)
		want += bytes
		var err error
		if i%50 > 0 {
			err = r.Write(context.Background(), u.m, u)
		} else {
			c := swap("a key", wire(-1), int64(i)) // this conditional write is not applied
			u.m, want = &c.Mutation, want-bytes
			err = r.ConditionalWrite(context.Background(), c, u)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-u.done
	}
	if got := int64(r.Load().Counts().BytesWritten); got != want || errs.Load() > 0 {
		t.Errorf("%d bytes were counted, %d were written; %d errors", got, want, errs.Load())
	}
}
