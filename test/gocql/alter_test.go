// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

// TestAlterWhileWriting checks that prepared statements write and read the correct columns while other columns of the
// table are added, dropped, and added again with the same type. The changes go through all nodes and both protocol
// versions. No acknowledged write may be lost, and no value may appear in another column. Only errors that the driver
// handles may occur.
func TestAlterWhileWriting(t *testing.T) {
	t.Parallel()
	c := testnode.Start(t, testnode.Options{Change: apart(t)})
	admin := connect(t, c.CQL(0), 5)
	exec(t, admin, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	for _, version := range []int{4, 5} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			table := fmt.Sprintf("ks.t%d", version)
			exec(t, admin, "CREATE TABLE "+table+" (k int PRIMARY KEY, m text, z int)")
			const lanes, alterations = 8, 12
			var stop atomic.Bool
			var wg sync.WaitGroup
			last := make([]int, lanes)
			var reads atomic.Int64
			for lane := range lanes {
				s := connect(t, c.CQL(lane%c.Len()), version)
				wg.Go(func() {
					for k := lane; !stop.Load(); k += lanes {
						if err := write(s, table, k); err != nil {
							t.Errorf("row %d: %v", k, err)
							return
						}
						last[lane] = k
						if err := readBack(s, table, k); err != nil {
							t.Errorf("row %d: %v", k, err)
							return
						}
						reads.Add(1)
					}
				})
			}
			for i := range alterations {
				s := connect(t, c.CQL(i%c.Len()), version)
				before := reads.Load()
				switch i % 4 {
				case 0:
					exec(t, s, "ALTER TABLE "+table+" ADD a int")
				case 1:
					// column n is between the other columns in name order
					exec(t, s, "ALTER TABLE "+table+" ADD n text")
				case 2:
					exec(t, s, "ALTER TABLE "+table+" DROP a")
				case 3:
					exec(t, s, "ALTER TABLE "+table+" DROP n")
				}
				for deadline := time.Now().Add(eventually.Limit); reads.Load() < before+2*lanes && !t.Failed() &&
					time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
			}
			stop.Store(true)
			wg.Wait()
			rows := map[int]bool{}
			iter := admin.Query("SELECT k, m, z FROM " + table).Consistency(gocql.Quorum).Iter()
			var k, z int
			var m string
			for iter.Scan(&k, &m, &z) {
				if m != fmt.Sprint("m", k) || z != -k {
					t.Errorf("row %d has %q, %d", k, m, z)
				}
				rows[k] = true
			}
			if err := iter.Close(); err != nil {
				t.Fatal(err)
			}
			for lane, end := range last {
				for k := lane; k <= end && end > 0; k += lanes {
					if !rows[k] {
						t.Errorf("acknowledged row %d is missing", k)
					}
				}
			}
			t.Logf("%d rows, %d reads", len(rows), reads.Load())
		})
	}
}

// write writes a row in two ways.
func write(s *gocql.Session, table string, k int) error {
	if k%2 == 0 {
		return s.Query("INSERT INTO "+table+" (k, m, z) VALUES (?, ?, ?)", k, fmt.Sprint("m", k), -k).Exec()
	}
	b := s.Batch(gocql.LoggedBatch)
	b.Query("UPDATE "+table+" SET m = ? WHERE k = ?", fmt.Sprint("m", k), k)
	b.Query("UPDATE "+table+" SET z = ? WHERE k = ?", -k, k)
	return b.Exec()
}

// readBack reads all columns of a row. The number of columns changes while the statement is in use.
func readBack(s *gocql.Session, table string, k int) error {
	row := map[string]any{}
	if err := s.Query("SELECT * FROM "+table+" WHERE k = ?", k).Consistency(gocql.Quorum).MapScan(row); err != nil {
		return err
	}
	if row["k"] != k || row["m"] != fmt.Sprint("m", k) || row["z"] != -k {
		return fmt.Errorf("read %v", row)
	}
	for _, column := range []string{"a", "n"} {
		if v, ok := row[column]; ok && v != 0 && v != "" {
			return fmt.Errorf("%s is %v", column, v)
		}
	}
	return nil
}
