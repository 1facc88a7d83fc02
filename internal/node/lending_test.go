// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"errors"
	"testing"

	"github.com/ilion-db/ilion/internal/control/lending"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestIdlePartitionsLend checks that a partition that rejects requests borrows from idle partitions of its table.
// Other nodes may lead the idle partitions. The partition must not borrow more than the other partitions have lent. A
// node with lending disabled must not lend.
func TestIdlePartitionsLend(t *testing.T) {
	t.Parallel()
	const partitions = 12
	lends := Options{Limits: options.Limits{Lending: true}, Splits: options.Splits{Units: -1},
		InitialPartitions: partitions}
	nodes := []*Node{clusterNode(t, nil, steady(lends))}
	for _, o := range []Options{lends, lends, {InitialPartitions: partitions}} {
		nodes = append(nodes, clusterNode(t, nodes[0], steady(o)))
	}
	eventually.True(t, "four voters", func() bool { return voters(nodes[0]) == 4 })
	c := newClient(t, nodes[0])
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v text)")
	c.query("ALTER TABLE k.t WITH throughput = 4800") // each partition gets 400 RU/s, which even a slow machine exceeds
	leaders := func() (out [4][]*partition.Replica) {
		for i, n := range nodes {
			for _, r := range n.host.Replicas() {
				if r.Throughput().PerSecond() > 0 && r.Leading() {
					out[i] = append(out[i], r)
				}
			}
		}
		return out
	}
	eventually.True(t, "every node leads some of twelve partitions", func() bool {
		all := leaders()
		sum := 0
		for _, some := range all {
			sum += len(some)
		}
		return sum == partitions && min(len(all[0]), len(all[1]), len(all[2]), len(all[3])) > 0
	})
	loans := func(some []*partition.Replica) (lent, borrowed ru.Units) {
		for _, r := range some {
			l, b := r.Throughput().Loans()
			lent, borrowed = lent+l, borrowed+b
		}
		return lent, borrowed
	}

	insert := c.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
	// A node with lending disabled also does not borrow, so it must not lead the partition of the key.
	key, large := []byte{0, 0, 0, 0}, make([]byte, 2<<20)
	borrows := func() bool {
		tok, all := token.Hash(key), leaders()
		for _, some := range all[:3] {
			for _, r := range some {
				if span, _ := r.Span(); span.Tokens().Contains(tok) {
					return true
				}
			}
		}
		return false
	}
	eventually.True(t, "the partition of the key borrows", func() bool {
		if !borrows() {
			key[3]++
			return false
		}
		c.call.Result.Reset()
		c.call.Request.ID, c.call.Request.Values = insert, [][]byte{key, large}
		if err := c.wait(c.s.Execute(context.Background(), &c.call)).Err; err != nil {
			_, refused := errors.AsType[*dberr.Overloaded](err)
			if _, late := errors.AsType[*dberr.WriteTimeout](err); !refused && !late { // a busy disk
				t.Fatal(err)
			}
		}
		var all ru.Units
		for _, some := range leaders() {
			_, b := loans(some)
			all += b
		}
		return all > 0
	})

	lender := lending.New(nodes[0].metadata, nodes[0].host, nodes[0].queries)
	eventually.True(t, "a partition of the first node borrows of other nodes, too", func() bool {
		if here := leaders()[0]; len(here) > 0 { // leaders may change
			lender.Borrow(t.Context(), here[0], 1<<20*ru.Unit)
		}
		other, _ := loans(nodes[1].host.Replicas())
		third, _ := loans(nodes[2].host.Replicas())
		return other > 0 && third > 0
	})
	var lent, borrowed ru.Units
	for _, n := range nodes { // loans in flight are already counted as lent
		_, b := loans(n.host.Replicas())
		borrowed += b
	}
	for _, n := range nodes {
		l, _ := loans(n.host.Replicas())
		lent += l
	}
	if borrowed > lent {
		t.Errorf("%v RU were borrowed, %v were lent", borrowed, lent)
	}
	if l, _ := loans(nodes[3].host.Replicas()); l > 0 {
		t.Errorf("the node with lending disabled has lent %v RU", l)
	}
}
