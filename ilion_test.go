// SPDX-License-Identifier: Apache-2.0

package ilion

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// TestMain checks that the tests leave no goroutines running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, db *DB) *rawclient.Conn {
	t.Helper()
	c, err := rawclient.Dial(t.Context(), db.CQLAddr().String(), rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func query(t *testing.T, c *rawclient.Conn, text string) int {
	t.Helper()
	r, err := c.Query(text)
	if err != nil {
		t.Fatal(err)
	}
	return r.RowCount
}

// TestCycles checks that a database can be started and closed repeatedly while clients are connected. The test covers
// databases in memory and in a directory. No goroutine and no lock must remain. A directory must keep the rows.
func TestCycles(t *testing.T) {
	const cycles = 20
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "data")} {
		for i := range cycles {
			db, err := Start(t.Context(), Options{Dir: dir, HTTPAddr: "127.0.0.1:0", MemoryBytes: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			c := dial(t, db)
			if i == 0 || dir == "" {
				query(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
				query(t, c, "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c))")
				query(t, c, "CREATE INDEX ON ks.t (c)")
			}
			query(t, c, "INSERT INTO ks.t (k, c) VALUES (1, "+strings.Repeat("1", i%9+1)+")")
			if rows := query(t, c, "SELECT * FROM ks.t"); dir != "" && rows != min(i+1, 9) || dir == "" && rows != 1 {
				t.Errorf("start %d: %d rows", i, rows)
			}
			idle := dial(t, db) // this client remains connected until the database is closed
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Errorf("closed twice: %v", err)
			}
			if _, err := idle.Query("SELECT * FROM ks.t"); err == nil {
				t.Error("a closed database answers")
			}
			c.Close()
			idle.Close()
			if err := goleak.Find(); err != nil {
				t.Fatalf("after start and stop number %d: %v", i, err)
			}
		}
	}
}

// TestCloseUnderLoad checks that Close returns quickly during writes and DDL statements. No acknowledged row must be
// lost.
func TestCloseUnderLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	db, err := Start(t.Context(), Options{Dir: dir, MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, db)
	query(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	query(t, c, "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c))")
	c.Close()
	var wg sync.WaitGroup
	acked := make([]int, 4)
	started := make(chan struct{}, len(acked)+1)
	for w := range acked {
		conn := dial(t, db)
		wg.Go(func() {
			defer conn.Close()
			for i := 0; ; i++ {
				if _, err := conn.Query("INSERT INTO ks.t (k, c) VALUES (" + strconv.Itoa(w) + ", " + strconv.Itoa(i) +
					")"); err != nil {
					return
				}
				if acked[w] = i + 1; i == 20 {
					started <- struct{}{}
				}
			}
		})
	}
	conn := dial(t, db)
	wg.Go(func() {
		defer conn.Close()
		for i := 0; ; i++ {
			if _, err := conn.Query("CREATE TABLE ks.t" + strconv.Itoa(i) + " (k int PRIMARY KEY)"); err != nil {
				return
			}
			if i == 2 {
				started <- struct{}{}
			}
		}
	})
	for range len(acked) + 1 {
		<-started
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if db, err = Start(t.Context(), Options{Dir: dir, MemoryBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	c = dial(t, db)
	for w, n := range acked {
		if got := query(t, c, "SELECT * FROM ks.t WHERE k = "+strconv.Itoa(w)); got < n {
			t.Errorf("writer %d: %d rows were acknowledged, %d are there", w, n, got)
		}
	}
	c.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFailedStarts checks that a failed start returns the reason. No goroutine, listener, or lock must remain.
func TestFailedStarts(t *testing.T) {
	dir := t.TempDir()
	db, err := Start(t.Context(), Options{Dir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		o    Options
		want string
	}{
		"directory in use": {t.Context(), Options{Dir: filepath.Join(dir, "data")}, "another process uses it"},
		"port in use":      {t.Context(), Options{CQLAddr: db.CQLAddr().String()}, "address already in use"},
		"HTTP port in use": {t.Context(), Options{HTTPAddr: db.CQLAddr().String(), Dir: filepath.Join(dir, "other")},
			"address already in use"},
		"a file":       {t.Context(), Options{Dir: file}, "not a directory"},
		"below a file": {t.Context(), Options{Dir: filepath.Join(file, "data")}, "not a directory"},
		"cancelled":    {cancelled, Options{}, context.Canceled.Error()},
		"no port":      {t.Context(), Options{CQLAddr: "127.0.0.1"}, "is not host:port"},
	} {
		broken, err := Start(c.ctx, c.o)
		if err == nil {
			broken.Close()
			t.Errorf("%s: started", name)
		} else if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %q, want one line with %q", name, err, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a start that failed at a port has made a directory: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestHTTP checks that health and status are served only if an HTTP address is set.
func TestHTTP(t *testing.T) {
	db, err := Start(t.Context(), Options{HTTPAddr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/status": `"cluster": "Ilion"`,
		"/metrics": "ilion_cql_connections 0"} {
		r, err := http.Get("http://" + db.HTTPAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s, %v, no %q", path, r.Status, err, want)
		}
	}
	quiet, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	if quiet.HTTPAddr() != nil {
		t.Errorf("HTTP on %v", quiet.HTTPAddr())
	}
}
