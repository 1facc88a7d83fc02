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

// debts holds request units that this node owes to partitions without a replica on this node. A debt is paid with the
// next read that this node sends to the partition.
type debts struct {
	// some is the number of partitions with debts.
	some atomic.Int32
	mu   sync.Mutex
	of   map[topology.PartitionID]ru.Units
}

// debtsMax is the maximum number of partitions with debts. If more partitions have debts, the node forgets the debt to
// one of the partitions.
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

// take returns the debt to a partition and deletes it.
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

// Spend charges a logical partition's physical partition for the evaluation of rows that a principal has read there. It
// charges only the work that the price of the reads does not cover. key is nil if the request has read a range. t is
// then a token in that range. Spend rejects no request. The partition admits further requests once its balance is
// positive.
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
