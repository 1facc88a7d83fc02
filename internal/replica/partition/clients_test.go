// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
)

// sender passes the mutation of a request to a function and then sends the request to a replica.
type sender = func(*Replica, func(*command.Mutation)) error

// tally holds the acknowledged additions to counters and the additions with an unknown outcome.
type tally struct{ sure, unsure [40]int64 }

// clients write keys and add to counters until end. send finds the partition of a key. The clients fail the test if a
// read does not return an acknowledged write.
func (w *testCluster) clients(clients *sync.WaitGroup, end time.Time, send func(key string, f sender) error) *tally {
	tally := new(tally)
	var mu sync.Mutex
	for c := range 4 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 1))
			for v := int64(1); time.Now().Before(end); v++ {
				key := fmt.Sprint("w", c, " ", rng.IntN(8))
				id := w.dedupe()
				err := send(key, func(r *Replica, try func(*command.Mutation)) error {
					m := put(key, v)
					m.Dedupe = id
					try(m)
					return write(context.Background(), r, m)
				})
				if errors.Is(err, ErrUncertain) {
					continue
				} else if err != nil {
					w.t.Error(err)
					return
				}
				var got int64
				err = send(key, func(r *Replica, _ func(*command.Mutation)) (err error) {
					if got, _, err = get(context.Background(), r, key, 0); errors.Is(err, ErrUnconfirmed) {
						err = &NotLeader{}
					}
					return err
				})
				if err != nil || got != v {
					w.t.Errorf("%s: %d was acknowledged, found %d: %v", key, v, got, err)
				}
			}
		})
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 2))
			for time.Now().Before(end) {
				n := rng.IntN(len(tally.sure))
				key, id := fmt.Sprint("counter ", n), w.dedupe()
				err := send(key, func(r *Replica, try func(*command.Mutation)) error {
					c := add(key, 1)
					c.Mutation.Dedupe = id
					try(&c.Mutation)
					_, err := decide(context.Background(), r, c)
					return err
				})
				mu.Lock()
				switch {
				case err == nil:
					tally.sure[n]++
				case errors.Is(err, ErrUncertain):
					tally.unsure[n]++
				default:
					w.t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	return tally
}
