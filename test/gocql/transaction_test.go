// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/test/testnode"
)

// transfer moves an amount between two accounts of an owner if the balance is sufficient, and counts the transfer. The
// statement ends with the word batch, because the driver then prepares the statement.
const transfer = `BEGIN TRANSACTION
  LET source = (SELECT balance FROM tx.accounts WHERE owner = ? AND name = ?);
  SELECT source.balance, source.balance - ? AS left_over;
  IF source.balance >= ? THEN
    UPDATE tx.accounts SET balance = balance - ? WHERE owner = ? AND name = ?;
    UPDATE tx.accounts SET balance = balance + ? WHERE owner = ? AND name = ?;
    UPDATE tx.accounts SET balance = balance + 1 WHERE owner = ? AND name = 'count';
  END IF
COMMIT TRANSACTION -- batch
`

// TestTransactions checks prepared transactions with markers from clients that compete on four nodes. The transactions
// must preserve the sum of each owner's balances, and each must be applied once. Readers must see only complete
// transactions.
func TestTransactions(t *testing.T) {
	c := testnode.Start(t, testnode.Options{Nodes: 4, Change: apart(t)})
	admin := connectTo(t, c.CQL(0))
	exec(t, admin, "CREATE KEYSPACE tx WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	exec(t, admin, "CREATE TABLE tx.accounts (owner int, name text, balance bigint, PRIMARY KEY (owner, name))")
	const owners, accounts, each, opened = 3, 4, 60, int64(100)
	for o := range owners {
		for a := range accounts {
			exec(t, admin, "INSERT INTO tx.accounts (owner, name, balance) VALUES (?, ?, ?)", o, fmt.Sprint("a", a), opened)
		}
		exec(t, admin, "INSERT INTO tx.accounts (owner, name, balance) VALUES (?, 'count', 0)", o)
	}
	c.Settle()
	sum := func(s *gocql.Session, owner int) (total, count int64) {
		var name string
		var balance int64
		iter := s.Query("SELECT name, balance FROM tx.accounts WHERE owner = ?", owner).Consistency(gocql.Quorum).Iter()
		for iter.Scan(&name, &balance) {
			if name == "count" {
				count = balance
			} else {
				total += balance
			}
		}
		if err := iter.Close(); err != nil {
			t.Error(err)
		}
		return total, count
	}
	var clients, readers sync.WaitGroup
	var done [owners]atomic.Int64
	stop := make(chan struct{})
	for i := range c.Len() {
		s := connectTo(t, c.CQL(i))
		readers.Go(func() {
			for o := 0; ; o = (o + 1) % owners {
				if total, _ := sum(s, o); total != accounts*opened {
					t.Errorf("owner %d has %d, want %d", o, total, accounts*opened)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		for lane := range 2 {
			clients.Go(func() {
				dice := rand.New(rand.NewPCG(uint64(i), uint64(lane)))
				for range each {
					o, from, amount := dice.IntN(owners), dice.IntN(accounts), int64(1+dice.IntN(90))
					source, target := fmt.Sprint("a", from), fmt.Sprint("a", (from+1)%accounts)
					row := map[string]any{}
					if err := s.Query(transfer, o, source, amount, amount, amount, o, source, amount, o, target,
						o).MapScan(row); err != nil {
						t.Errorf("transfer: %v", err)
						return
					}
					had, left := row["source.balance"].(int64), row["left_over"].(int64)
					if left != had-amount {
						t.Errorf("of %d %d is %d", had, amount, left)
					}
					if had >= amount {
						done[o].Add(1)
					}
				}
			})
		}
	}
	clients.Wait()
	close(stop)
	readers.Wait()
	for o := range owners {
		if total, count := sum(admin, o); total != accounts*opened || count != done[o].Load() {
			t.Errorf("owner %d has %d and counts %d transfers, clients count %d", o, total, count, done[o].Load())
		}
	}
	err := admin.Query(transfer, 0, "a0", int64(1), int64(1), int64(1), 0, "a0", int64(1), 0, "a1", 1).Exec()
	if err == nil || !strings.Contains(err.Error(), "accesses owner = 0 and owner = 1") {
		t.Errorf("transaction across owners: %v", err)
	}
}
