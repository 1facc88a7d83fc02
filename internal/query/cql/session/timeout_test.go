// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// TestTimeoutClause checks that USING TIMEOUT is accepted in all statements. For a SELECT that reads several parts of a
// table, the clause can shorten or extend the time limit.
func TestTimeoutClause(t *testing.T) {
	var now time.Time
	step := time.Duration(0)
	w := newFixture(t, Options{Limits: Limits{ScanTimeout: time.Minute}, Clock: fakeclock.Func(func() time.Time {
		now = now.Add(step)
		return now
	})})
	now = time.Now() // replicas use the system clock
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	for _, text := range []string{
		"INSERT INTO ks.t (k, v) VALUES (1, 2) USING TIMEOUT 5s AND TTL 100",
		"UPDATE ks.t USING TIMESTAMP 5 AND TIMEOUT 5s SET v = 1 WHERE k = 1",
		"DELETE FROM ks.t USING TIMEOUT 5s WHERE k = 2",
		"BEGIN BATCH USING TIMEOUT 5s INSERT INTO ks.t (k, v) VALUES (1, 2); INSERT INTO ks.t (k, v) VALUES (2, 2); APPLY BATCH",
		"UPDATE ks.t USING TIMEOUT 5s SET v = 3 WHERE k = 1 IF v = 2",
		"SELECT * FROM ks.t WHERE k = 1 USING TIMEOUT 5s",
		"SELECT * FROM system.local USING TIMEOUT 30000ms",
	} {
		w.query(t, text)
	}
	const inTransaction = "cannot have USING TIMEOUT"
	for text, want := range map[string]string{
		"SELECT * FROM ks.t USING TIMEOUT 1mo": "cannot contain months",
		"SELECT * FROM ks.t USING TIMEOUT 5":   "Unable to convert",
		"BEGIN TRANSACTION LET a = (SELECT * FROM ks.t WHERE k = 1 USING TIMEOUT 5s); SELECT a.v; " +
			"COMMIT TRANSACTION": inTransaction,
		"BEGIN TRANSACTION DELETE FROM ks.t USING TIMEOUT 5s WHERE k = 1; COMMIT TRANSACTION": inTransaction,
	} {
		if err := w.try(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if p := w.prepared(t, w.client, "SELECT * FROM ks.t WHERE k = ? USING TIMEOUT ?"); len(p.Bind) != 2 ||
		p.Bind[1].Name != "[timeout]" || p.Bind[1].Type.String() != "duration" {
		t.Errorf("the markers are %+v", p.Bind)
	}
	const scan = "SELECT * FROM ks.t WHERE k IN (1, 2, 3, 4)"
	step = 10 * time.Second
	var late *dberr.ReadTimeout
	if err := w.try(scan + " USING TIMEOUT 1s"); !errors.As(err, &late) {
		t.Errorf("with a second: %v", err)
	}
	if err := w.try(scan + " USING TIMEOUT 1h"); err != nil {
		t.Errorf("with an hour: %v", err)
	}
}
