// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// These constants define the accounts and clients of TestTransactionsOverKills.
const (
	txnOwners   = 3
	txnAccounts = 4
	txnOpened   = 1000
	txnClients  = 8
	txnKills    = 6
)

// transferText returns a transaction that moves an amount and writes a receipt. Receipts are counted.
func transferText(owner, from int, amount int64, receipt string) string {
	account := func(a int) string { return fmt.Sprintf("owner = %d AND name = 'a%d'", owner, a%txnAccounts) }
	return fmt.Sprintf(`BEGIN TRANSACTION
		LET source = (SELECT balance FROM load.accounts WHERE %[1]s);
		SELECT source.balance;
		IF source.balance >= %[3]d THEN
			UPDATE load.accounts SET balance = balance - %[3]d WHERE %[1]s;
			UPDATE load.accounts SET balance = balance + %[3]d WHERE %[2]s;
			UPDATE load.accounts SET balance = balance + 1 WHERE owner = %[4]d AND name = 'count';
			INSERT INTO load.accounts (owner, name, balance) VALUES (%[4]d, '%[5]s', %[3]d);
		END IF
		COMMIT TRANSACTION`, account(from), account(from+1), amount, owner, receipt)
}

// cellsOf returns the cells of a result, which must not be null.
func cellsOf(r *cqlwire.Result) (out [][]byte) {
	for b := r.Cells; len(b) >= 4; {
		n := 4 + int(binary.BigEndian.Uint32(b))
		out, b = append(out, b[4:n]), b[n:]
	}
	return out
}

// TestTransactionsOverKills checks that transactions of competing clients are atomic, are applied once, and preserve a
// sum. During the test, nodes are killed in turn. Every acknowledged transfer must have a receipt, and the number of
// receipts must equal the counter.
func TestTransactionsOverKills(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	setup, err := rawclient.Dial(t.Context(), f.nodes[0].cql(), rawclient.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer setup.Close()
	run := func(text string) *cqlwire.Result {
		t.Helper()
		r, err := setup.Query(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return r
	}
	run("CREATE KEYSPACE load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	run("CREATE TABLE load.accounts (owner int, name text, balance bigint, PRIMARY KEY (owner, name))")
	for o := range txnOwners {
		for a := range txnAccounts {
			run(fmt.Sprintf("INSERT INTO load.accounts (owner, name, balance) VALUES (%d, 'a%d', %d)", o, a, txnOpened))
		}
		run(fmt.Sprintf("INSERT INTO load.accounts (owner, name, balance) VALUES (%d, 'count', 0)", o))
	}
	f.settle()
	var acked, unknown atomic.Int64
	var made sync.Map // receipts that were acknowledged to clients
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range txnClients {
		clients.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(i), 7))
			var c *rawclient.Conn
			for n := 0; ; n++ {
				select {
				case <-stop:
					if c != nil {
						c.Close()
					}
					return
				default:
				}
				if c == nil {
					c, _ = rawclient.Dial(t.Context(), f.nodes[(i+n)%len(f.nodes)].cql(),
						rawclient.Options{Timeout: 20 * time.Second})
					continue
				}
				receipt := fmt.Sprintf("r%d-%d", i, n)
				owner, amount := dice.IntN(txnOwners), int64(1+dice.IntN(600))
				r, err := c.Query(transferText(owner, dice.IntN(txnAccounts), amount, receipt))
				if err != nil {
					unknown.Add(1)
					c.Close()
					c = nil
					continue
				}
				if acked.Add(1); r.RowCount != 1 {
					t.Errorf("a transfer returns %d rows", r.RowCount)
				} else if int64(binary.BigEndian.Uint64(cellsOf(r)[0])) >= amount {
					made.Store(fmt.Sprint(owner, " ", receipt), true)
				}
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		want := acked.Load() + n
		if _, missed := eventually.Try(time.Minute, func() string {
			if acked.Load() < want {
				return fmt.Sprintf("%d transfers", acked.Load())
			}
			return ""
		}); missed != "" {
			t.Fatalf("got %s after a minute, want %d", missed, want)
		}
	}
	for i := range txnKills {
		more(200)
		victim := f.nodes[1+i%3]
		victim.kill()
		more(200)
		victim.start()
		f.acquaint()
	}
	more(200)
	close(stop)
	clients.Wait()
	for o := range txnOwners {
		var total, counted, receipts int64
		found := map[string]bool{}
		cells := cellsOf(run(fmt.Sprintf("SELECT name, balance FROM load.accounts WHERE owner = %d", o)))
		for i := 0; i < len(cells); i += 2 {
			name, balance := string(cells[i]), int64(binary.BigEndian.Uint64(cells[i+1]))
			switch name[0] {
			case 'a':
				total += balance
			case 'c':
				counted = balance
			default:
				receipts++
				found[fmt.Sprint(o, " ", name)] = true
			}
		}
		if total != txnAccounts*txnOpened || counted != receipts {
			t.Errorf("owner %d has %d of %d; %d transfers were counted, %d receipts exist", o, total,
				txnAccounts*txnOpened, counted, receipts)
		}
		made.Range(func(key, _ any) bool {
			if k := key.(string); k[0] == byte('0'+o) && !found[k] {
				t.Errorf("receipt %s of an acknowledged transfer is missing", k)
			}
			return true
		})
	}
	t.Logf("%d transfers completed, %d have an unknown outcome, %d kills", acked.Load(), unknown.Load(), txnKills)
}
