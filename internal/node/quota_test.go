// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
)

// try works like execute for statements that may be rejected.
func (c *client) try(id [16]byte, values ...[]byte) error {
	c.call.Result.Reset()
	c.call.Request.ID, c.call.Request.Values = id, values
	return c.wait(c.s.Execute(context.Background(), &c.call)).Err
}

// TestLogicalPartitionLimit checks that a logical partition with a limit of 20 MB rejects writes that would enlarge
// the partition. The limit must apply with a tolerance of 2%, and the error must name the key. Overwrites do not count
// as growth. Reads, deletes, and writes of other logical partitions must succeed. After a delete, the partition must
// accept writes again.
func TestLogicalPartitionLimit(t *testing.T) {
	t.Parallel()
	const limit, value = 20_000_000, 10_000
	n := startTestNode(t, Options{Limits: options.Limits{LogicalPartitionBytes: limit}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k text, c int, v blob, PRIMARY KEY (k, c))")
	insert := c.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
	full, other := []byte("it's full"), []byte("other")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	v := make([]byte, value)
	_, _ = rand.Read(v)
	for i := range 3 * limit / value / 2 { // write more bytes than the limit to the same rows
		if err := c.try(insert, full, number(i%500), v); err != nil {
			t.Fatalf("overwriting %d bytes: %v", i*value, err)
		}
	}
	var refused error
	rows := 500
	for ; refused == nil && rows < 2*limit/value; rows++ {
		refused = c.try(insert, full, number(rows), v)
	}
	const want = "ks.t k = 'it''s full' has reached its maximum size of 20000000"
	if refused == nil || !strings.Contains(refused.Error(), want) {
		t.Fatalf("after %d bytes: %v", rows*value, refused)
	}
	if size := rows * value; size < limit*98/100 || size > limit*102/100 { // keys and markers also count
		t.Errorf("rejected at %d bytes", size)
	}
	if err := c.try(insert, other, number(1), v); err != nil {
		t.Errorf("another logical partition: %v", err)
	}
	if got := c.execute(c.prepare("SELECT c FROM ks.t WHERE k = ? AND c = ?"), full, number(7)).RowCount; got != 1 {
		t.Errorf("read %d rows, want 1", got)
	}
	if err := c.try(insert, full, number(7), v); err == nil {
		t.Error("a write to the full logical partition succeeded")
	}
	c.execute(c.prepare("DELETE FROM ks.t WHERE k = ? AND c < ?"), full, number(500))
	eventually.True(t, "it is written again", func() bool { return c.try(insert, full, number(7), v) == nil })
}

// TestLargeLogicalPartitionsAreTold checks that clients that write to a large logical partition receive a warning with
// the partition's key. A logical partition is large if it exceeds 10 MB or 100,000 values. The test covers only the
// size.
func TestLargeLogicalPartitionsAreTold(t *testing.T) {
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k text, c int, v blob, PRIMARY KEY (k, c))")
	insert := c.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	v := make([]byte, 50_000)
	_, _ = rand.Read(v)
	for i := range 300 {
		c.execute(insert, []byte("large"), number(i), v)
	}
	var said []string
	eventually.True(t, "it is told", func() bool {
		said = c.execute(insert, []byte("large"), number(1), v).Warnings
		return len(said) > 0
	})
	if !strings.Contains(said[0], "ks.t k = 'large' has 1") ||
		!strings.Contains(said[0], "exceeds the limit of 10000000 bytes") {
		t.Error(said)
	}
	if said = c.execute(insert, []byte("small"), number(1), nil).Warnings; len(said) > 0 {
		t.Errorf("a small logical partition: %v", said)
	}
}
