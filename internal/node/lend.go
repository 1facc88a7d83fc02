// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

const (
	// lendEvery is how often partitions that refuse requests borrow, and lendSubject what other nodes are asked by.
	lendEvery   = 100 * time.Millisecond
	lendSubject = "lend"
	// lendWait bounds how long all nodes are asked for one partition, and lendersMax how many of them are.
	lendWait   = 80 * time.Millisecond
	lendersMax = 8
)

var errMalformedLoan = errors.New("another node asks for a loan in a form that this one does not know")

// lend has the partitions that refuse requests, and that this node leads, borrow of those that share their throughput,
// until ctx ends.
func (n *Node) lend(ctx context.Context) {
	every := time.NewTicker(lendEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		for _, r := range n.host.Replicas() {
			if wanted := r.Shortfall(); wanted > 0 {
				n.borrow(ctx, r, wanted)
			}
		}
	}
}

// borrow asks the partitions of this node, and then other nodes, one after another, until enough was lent.
func (n *Node) borrow(ctx context.Context, r *partition.Replica, wanted ru.Units) {
	lent := n.lendTo(r.ID(), r.Table(), wanted)
	r.TakeLoan(lent)
	if n.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lendWait)
	defer cancel()
	for _, node := range n.lenders(r.Table()) {
		if wanted -= lent; wanted <= 0 || ctx.Err() != nil {
			return
		}
		lent = n.cluster.askLoan(ctx, node, r, wanted)
		r.TakeLoan(lent)
	}
}

// lendTo lends to a partition what those that share its throughput, and that this node leads, have idle.
func (n *Node) lendTo(to topology.PartitionID, table uint32, wanted ru.Units) (lent ru.Units) {
	state, replicas := n.records.State(), n.host.Replicas()
	tables := map[uint32]bool{}
	for _, t := range throughput.Sharers(state, table) {
		tables[t] = true
	}
	begin := 0
	if len(replicas) > 0 {
		begin = rand.IntN(len(replicas))
	}
	for i := range replicas {
		r := replicas[(begin+i)%len(replicas)]
		if r.ID() == to || !tables[r.Table()] {
			continue
		}
		if lent += r.LendIdle(wanted - lent); lent >= wanted {
			break
		}
	}
	return lent
}

// lenders are other nodes that may lead partitions which share the throughput of a table, in an order by chance.
func (n *Node) lenders(table uint32) (out []topology.NodeID) {
	state := n.records.State()
	known := map[topology.NodeID]bool{n.cluster.self: true}
	for _, t := range throughput.Sharers(state, table) {
		for _, p := range state.Map.Partitions(t) {
			for i := range p.Sets {
				for _, m := range p.Sets[i].Replicas {
					if !known[m.Node] && n.cluster.peers.Alive(m.Node) {
						known[m.Node] = true
						out = append(out, m.Node)
					}
				}
			}
		}
	}
	rand.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out[:min(len(out), lendersMax)]
}

// askLoan asks another node to lend. One that does not lend, or is of an older build, answers with an error. What is
// lent and not heard of is lost.
func (c *cluster) askLoan(ctx context.Context, node topology.NodeID, r *partition.Replica, wanted ru.Units) ru.Units {
	q := binary.AppendUvarint(nil, uint64(r.ID()))
	q = binary.AppendUvarint(q, uint64(r.Table()))
	q = binary.AppendUvarint(q, uint64(wanted))
	answer, err := c.peers.Ask(ctx, node, lendSubject, q)
	if err != nil {
		return 0
	}
	lent, size := binary.Uvarint(answer)
	if size <= 0 {
		return 0
	}
	return min(ru.Units(lent), wanted)
}

// answerLend lends to a partition that another node leads.
func (c *cluster) answerLend(_ context.Context, question []byte) ([]byte, error) {
	select {
	case <-c.started:
	default:
		return []byte{0}, nil
	}
	if !c.n.opts.Limits.Lending {
		return []byte{0}, nil
	}
	d := codec.NewReader(question, errMalformedLoan)
	to, table, wanted := topology.PartitionID(d.Uint()), d.Uint32(), ru.Units(d.UpTo(math.MaxInt64))
	if err := d.End(); err != nil {
		return nil, err
	}
	return binary.AppendUvarint(nil, uint64(c.n.lendTo(to, table, wanted))), nil
}
