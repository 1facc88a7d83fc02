// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// TestDeadline checks that a read that requires many commands ends at the deadline. A read must succeed if it requires
// only one command or completes before the deadline.
func TestDeadline(t *testing.T) {
	w := newFixture()
	for _, text := range []string{"CREATE KEYSPACE ks WITH replication = {}",
		"CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))"} {
		stmt, _, err := parser.Parse(text)
		if err == nil {
			err = w.set(stmt, 0, binds{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m := w.memory(w.schema.Table("ks", "t"))
	for k := range uint32(1000) {
		m.partition(binary.BigEndian.AppendUint32(nil, k))
	}
	for text, ends := range map[string]bool{
		"SELECT count(*) FROM ks.t":                                        true,
		"SELECT k, max(v) FROM ks.t GROUP BY k":                            true,
		"SELECT * FROM ks.t WHERE v = 1 ALLOW FILTERING":                   true,
		"SELECT * FROM ks.t":                                               true,
		"SELECT * FROM ks.t WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)":    true,
		"SELECT sum(v) FROM ks.t WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9)":   true,
		"SELECT count(*) FROM ks.t WHERE k = 1":                            false,
		"SELECT count(*) FROM ks.t WHERE k IN (1, 2, 3)":                   false,
		"SELECT DISTINCT k FROM ks.t WHERE token(k) > 9223372036854775806": false,
	} {
		p, err := w.prepare(text)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Unix(w.now, 0)
		now := began // each call advances the clock by a second
		m.reads = 0
		_, err = w.execute(p, binds{}, Options{VisitsMax: 20, Deadline: began.Add(3 * time.Second),
			Clock: fakeclock.Func(func() time.Time { now = now.Add(time.Second); return now })})
		var late *dberr.ReadTimeout
		if errors.As(err, &late) != ends || (err == nil) == ends || m.reads > 4 {
			t.Errorf("%s: %v after %d commands", text, err, m.reads)
		}
	}
}
