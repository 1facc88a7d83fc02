// SPDX-License-Identifier: Apache-2.0

// Package lending moves unused throughput between the partitions that share a throughput. The leader of a partition
// that rejects requests borrows request units from idle partitions, first on its own node and then on other nodes.
//
// A loan reduces the budget of the lender before it increases the budget of the borrower. If a response is lost, the
// loan is also lost, so the total never exceeds the provisioned throughput. Start reading at Lender.Run.
package lending

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// Call requests a loan. Lender.Register registers its handler.
var Call = rpc.Declare[Request, Loan](rpc.Spec{Name: "lend", Since: 3, Timeout: borrowTimeout,
	RequestMax: rpc.SmallBytes, ResponseMax: rpc.SmallBytes})

// Request is a partition's request for unused request units of other partitions.
type Request struct {
	Partition topology.PartitionID
	Table     uint32
	Wanted    ru.Units
}

// AppendBinary implements encoding.BinaryAppender.
func (q *Request) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(q.Partition))
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(q.Table)), uint64(q.Wanted)), nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (q *Request) UnmarshalBinary(b []byte) error {
	d := codec.NewReader(b, errMalformed)
	*q = Request{topology.PartitionID(d.Uint()), d.Uint32(), ru.Units(d.UpTo(math.MaxInt64))}
	return d.End()
}

// Loan is the number of request units that a node lends.
type Loan struct{ Lent ru.Units }

// AppendBinary implements encoding.BinaryAppender.
func (a *Loan) AppendBinary(b []byte) ([]byte, error) {
	return binary.AppendUvarint(b, uint64(a.Lent)), nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (a *Loan) UnmarshalBinary(b []byte) error {
	d := codec.NewReader(b, errMalformed)
	a.Lent = ru.Units(d.UpTo(math.MaxInt64))
	return d.End()
}

const (
	// interval is the interval at which partitions that reject requests borrow units.
	interval = 100 * time.Millisecond
	// borrowTimeout is the time limit of all queries for one partition. lendersMax is the maximum number of queried
	// nodes.
	borrowTimeout = 80 * time.Millisecond
	lendersMax    = 8
)

var errMalformed = errors.New("malformed loan request")

// Lender borrows units for the partitions that this node leads, and lends units to other partitions.
type Lender struct {
	metadata *meta.Keeper
	host     *partition.Host
	queries  *clusterquery.Client
}

// New returns a Lender. queries is nil on a standalone node.
func New(metadata *meta.Keeper, host *partition.Host, queries *clusterquery.Client) *Lender {
	return &Lender{metadata, host, queries}
}

// Register registers the handler for the loan requests of other nodes.
func (l *Lender) Register(s *rpc.Server) {
	clusterquery.Handle(s, Call, func(_ context.Context, q Request) (Loan, error) {
		return Loan{l.lend(q.Partition, q.Table, q.Wanted)}, nil
	})
}

// Run borrows units, until ctx ends, for the led partitions that reject requests.
func (l *Lender) Run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, r := range l.host.Replicas() {
			if wanted := r.Throughput().Shortfall(); wanted > 0 {
				l.Borrow(ctx, r, wanted)
			}
		}
	}
}

// Borrow borrows request units for a partition, first from partitions on this node and then from other nodes, until it
// has borrowed the wanted amount.
func (l *Lender) Borrow(ctx context.Context, r *partition.Replica, wanted ru.Units) {
	lent := l.lend(r.ID(), r.Table(), wanted)
	r.Throughput().TakeLoan(lent)
	if l.queries == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, borrowTimeout)
	defer cancel()
	for _, node := range l.lenders(r.Table()) {
		if wanted -= lent; wanted <= 0 || ctx.Err() != nil {
			return
		}
		// A node that does not lend units or runs an older version returns an error.
		loan, _ := clusterquery.Query(ctx, l.queries, node, Call, Request{r.ID(), r.Table(), wanted})
		lent = min(loan.Lent, wanted)
		r.Throughput().TakeLoan(lent)
	}
}

// lend takes idle request units for partition to from the partitions that this node leads and that share the throughput
// of a table.
func (l *Lender) lend(to topology.PartitionID, table uint32, wanted ru.Units) (lent ru.Units) {
	state, replicas := l.metadata.State(), l.host.Replicas()
	tables := map[uint32]bool{}
	for _, t := range throughput.SharedTables(state, table) {
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
		if lent += r.Throughput().LendIdle(wanted - lent); lent >= wanted {
			break
		}
	}
	return lent
}

// lenders returns, in random order, the other nodes in this node's region that may lead partitions with the same
// throughput as a table. Replica sets of different regions have separate shares of the throughput.
func (l *Lender) lenders(table uint32) (out []topology.NodeID) {
	state := l.metadata.State()
	self := state.Node(l.queries.Self())
	known := map[topology.NodeID]bool{l.queries.Self(): true}
	for _, t := range throughput.SharedTables(state, table) {
		for _, p := range state.Topology.Partitions(t) {
			for i := range p.Sets {
				if self != nil && p.Sets[i].Region != self.Region {
					continue
				}
				for _, m := range p.Sets[i].Replicas {
					if !known[m.Node] && l.queries.Alive(m.Node) {
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
