// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// debts holds request units that this node owes to partitions without a replica on this node. This node pays a debt
// with its next read of the partition.
type debts struct {
	some atomic.Int32
	mu   sync.Mutex
	of   map[topology.PartitionID]ru.Units
}

// debtsMax is the maximum number of partitions with debts. If the maximum is exceeded, the node forgets the debt to one
// of the partitions.
const debtsMax = 4096

func (d *debts) add(id topology.PartitionID, u ru.Units) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[topology.PartitionID]ru.Units{}
	}
	if _, known := d.of[id]; !known && len(d.of) >= debtsMax {
		for other := range d.of {
			delete(d.of, other)
			break
		}
	}
	d.of[id] += u
	d.some.Store(int32(len(d.of)))
}

// take removes and returns the debt to a partition.
func (d *debts) take(id topology.PartitionID) ru.Units {
	if d.some.Load() == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.of[id]
	delete(d.of, id)
	d.some.Store(int32(len(d.of)))
	return u
}

// Spend charges a physical partition for the evaluation of rows that a principal has read from the partition. u is the
// cost that the price of the reads does not cover. If the request has read a range, key is nil and t is a token in the
// range. Spend never rejects a request, but the balance of the partition may become negative. The partition then
// rejects requests until the balance is positive.
func (c *Coordinator) Spend(table uint32, t token.Token, key []byte, who fairshare.Principal, u ru.Units) {
	if u <= 0 {
		return
	}
	at := topology.Position{Ring: t.Position()}
	if key != nil {
		at = topology.At(t, key)
	}
	s := c.Topology()
	i := s.Find(table, at)
	if i < 0 {
		return // the table has been dropped
	}
	id := s.Partitions(table)[i].ID
	if here := c.cluster.local.Replica(id); here != nil {
		here.Spend(who, t, key, u)
		return
	}
	c.debts.add(id, u)
}
