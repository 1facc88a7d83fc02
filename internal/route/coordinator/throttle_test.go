// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
)

// spent makes the leaders of a fleet reject all requests until a given time. The errors contain the time.
func (f *fleet) spent(until time.Time) {
	f.script = func(*asked) *verdict {
		if left := time.Until(until); left > 0 {
			return &verdict{err: &dberr.Overloaded{Message: "Request rate is large", RetryAfter: left}}
		}
		return nil
	}
}

// TestThrottledWaits checks that a throttled request is retried when the partition has request units again. The request
// must be rejected if the units arrive too late or the caller does not want to wait. No request may complete after its
// deadline.
func TestThrottledWaits(t *testing.T) {
	asks := map[string]func(c *Coordinator) error{
		"write": func(c *Coordinator) error { return writeNow(c, WriteOptions{}, put("k", "c", 1)) },
		"read": func(c *Coordinator) error {
			_, err := readNow(context.Background(), c, dberr.Quorum, "k")
			return err
		},
		"condition": func(c *Coordinator) error { _, err := swapNow(c, swapOf("k", 1, 2)); return err },
		"batch": func(c *Coordinator) error {
			return writeNow(c, WriteOptions{Atomic: true}, put("k", "c", 1), put("k", "d", 1))
		},
		"batch of several": func(c *Coordinator) error {
			return writeNow(c, WriteOptions{Atomic: true}, spread(c, 2)...)
		},
	}
	for name, ask := range asks {
		for _, c := range []struct {
			wait, spent, took time.Duration
			ok                bool
		}{
			{time.Second, 300 * time.Millisecond, 300 * time.Millisecond, true},
			{0, 300 * time.Millisecond, 0, false},
			{100 * time.Millisecond, 300 * time.Millisecond, 0, false},
			{time.Hour, 1700 * time.Millisecond, 1700 * time.Millisecond, true},
			{time.Hour, 4900 * time.Millisecond, 0, false},
		} {
			inFleetWith(t, 2, Options{ThrottledWait: c.wait}, func(t *testing.T, f *fleet, co *Coordinator) {
				began := time.Now()
				f.spent(began.Add(c.spent))
				err := ask(co)
				took := time.Since(began)
				busy := new(dberr.Overloaded)
				in := took >= c.took && took <= c.took+time.Second/10
				if c.ok != (err == nil) || !c.ok && !errors.As(err, &busy) || !in {
					t.Errorf("%s, spent for %v, where it waits for %v: %v after %v", name, c.spent, c.wait, err, took)
				}
				if n := co.queues.waiting.Load(); n != 0 || len(co.queues.all) != 0 || co.queues.reads != 0 {
					t.Errorf("%d are in a queue", n)
				}
			})
		}
	}
}

// TestThrottledInOrder checks that waiting requests are sent one at a time and in the order of arrival. Later requests
// of the same principal must also wait, but requests of other principals must not wait.
func TestThrottledInOrder(t *testing.T) {
	inFleetWith(t, 1, Options{ThrottledWait: time.Second}, func(t *testing.T, f *fleet, c *Coordinator) {
		began := time.Now()
		taken := 0
		var order []uint32
		f.script = func(a *asked) *verdict {
			who := a.m.Principal.User
			if who == 7 {
				return nil
			}
			if left := time.Until(began.Add(time.Duration(taken+1) * 10 * time.Millisecond)); left > 0 {
				return &verdict{err: &dberr.Overloaded{RetryAfter: left}}
			}
			taken++
			order = append(order, uint32(a.m.SchemaVersion))
			return nil
		}
		done := make(chan error, 20)
		for i := range uint32(10) {
			m := put("k", fmt.Sprint(i), int64(i))
			m.SchemaVersion, m.Principal = uint64(i), fairshare.Principal{User: 1}
			c.Write(t.Context(), []command.Mutation{m}, WriteOptions{}, result(done))
			synctest.Wait()
		}
		other := put("k", "other", 1)
		other.Principal.User = 7
		if err := writeNow(c, WriteOptions{}, other); err != nil || time.Since(began) > 0 {
			t.Errorf("another principal: %v after %v", err, time.Since(began))
		}
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if !slices.IsSorted(order) || len(order) != 10 {
			t.Errorf("they were written in the order %v", order)
		}
		if n := len(f.take()); n > 10+1+2*10 {
			t.Errorf("%d attempts were made for 11 writes", n)
		}
	})
}

// TestThrottledBound checks the limits on waiting requests and waiting reads. If a waiting request is rejected for
// another reason, the request must release its slot.
func TestThrottledBound(t *testing.T) {
	o := Options{ThrottledWait: time.Second, ThrottledMax: 3, ThrottledReadsMax: 1}
	inFleetWith(t, 1, o, func(t *testing.T, f *fleet, c *Coordinator) {
		f.spent(time.Now().Add(500 * time.Millisecond))
		done := make(chan error, 20)
		for range 2 {
			go func() {
				_, err := readNow(t.Context(), c, dberr.Quorum, "k")
				done <- err
			}()
		}
		synctest.Wait()
		for range 3 {
			c.Write(t.Context(), []command.Mutation{put("k", "c", 1)}, WriteOptions{}, result(done))
			synctest.Wait()
		}
		if n := c.queues.waiting.Load(); n != 3 || len(done) != 2 {
			t.Errorf("%d wait, %d are rejected", n, len(done))
		}
		for range 2 {
			if err := <-done; !errors.As(err, new(*dberr.Overloaded)) {
				t.Error(err)
			}
		}
		f.change(func() {
			f.script = func(*asked) *verdict { return &verdict{err: dberr.Invalidf("no")} }
		})
		for range 3 {
			<-done
		}
		if n := c.queues.waiting.Load(); n != 0 {
			t.Errorf("%d wait still", n)
		}
	})
}
