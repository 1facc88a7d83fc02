// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion"
)

// backOff is a retry policy that reads the wait time from a throttling error. It reads the time in the same way as two
// published policies for Azure Cosmos DB. The policy for gocql looks for the status code 429 and reads the second
// comma-separated part. The policy for the Java driver reads any part with one name and one value.
type backOff struct {
	mu     sync.Mutex
	waited []time.Duration
	failed []string
}

// Attempt implements gocql.RetryPolicy.
func (b *backOff) Attempt(q gocql.RetryableQuery) bool { return q.Attempts() <= 20 }

// GetRetryType implements gocql.RetryPolicy.
func (b *backOff) GetRetryType(err error) gocql.RetryType {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := err.Error()
	parts := strings.Split(text, ",")
	if !strings.Contains(text, "TooManyRequests (429)") || len(parts) < 2 {
		b.failed = append(b.failed, text)
		return gocql.Rethrow
	}
	name, value, _ := strings.Cut(parts[1], "=")
	ms, err := strconv.Atoi(value)
	if err != nil || strings.TrimSpace(name) != "RetryAfterMs" || ms != byNameAndValue(text) {
		b.failed = append(b.failed, text)
		return gocql.Rethrow
	}
	wait := time.Duration(ms) * time.Millisecond
	b.waited = append(b.waited, wait)
	time.Sleep(wait)
	return gocql.Retry
}

func byNameAndValue(text string) int {
	for part := range strings.SplitSeq(text, ",") {
		if kv := strings.Split(part, "="); len(kv) == 2 && strings.TrimSpace(kv[0]) == "RetryAfterMs" {
			if ms, err := strconv.Atoi(kv[1]); err == nil {
				return ms
			}
		}
	}
	return -1
}

func chargeOf(payload map[string][]byte) float64 {
	if b := payload["RequestCharge"]; len(b) == 8 {
		return math.Float64frombits(binary.BigEndian.Uint64(b))
	}
	return -1
}

const (
	throttledWrites = 20
	// kb100 is the size of a value that makes a row of throttled.t 100 KB long. A write of this row costs 50 request
	// units.
	kb100 = 100<<10 - 21
)

// TestDriversAreThrottled checks programs on a table with 400 request units per second. The programs must receive the
// cost of each write. If they write too fast, they must be throttled, wait for the requested time, and then succeed.
// Their retry policies resemble the policies published for Azure Cosmos DB. Twenty writes of 50 request units each
// must take more than a second.
func TestDriversAreThrottled(t *testing.T) {
	t.Parallel()
	db, err := ilion.Start(t.Context(), ilion.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := connect(t, db.CQLAddr().String(), 4)
	exec(t, s, "CREATE KEYSPACE throttled WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	table := func(name string) {
		exec(t, s, "CREATE TABLE throttled."+name+
			" (k bigint PRIMARY KEY, v blob) WITH cosmosdb_provisioned_throughput = 400")
	}
	t.Run("gocql", func(t *testing.T) {
		table("gocql")
		policy := &backOff{}
		began := time.Now()
		// On a slow machine, the next write may be within the limit, so the test writes until one write must wait.
		writes := int64(0)
		for ; writes < throttledWrites || len(policy.waited) == 0 && writes < 50*throttledWrites; writes++ {
			it := s.Query("INSERT INTO throttled.gocql (k, v) VALUES (?, ?)", writes, make([]byte, kb100)).
				RetryPolicy(policy).Idempotent(true).Iter()
			charge := chargeOf(it.GetCustomPayload())
			if err := it.Close(); err != nil || charge != 50 {
				t.Fatalf("write %d costs %v: %v", writes, charge, err)
			}
		}
		took := time.Since(began)
		t.Logf("%d writes of 50 RU at 400 RU/s took %v, with %d waits: %v", writes, took, len(policy.waited),
			policy.waited)
		// The table starts with the request units of one second, and the last write may exceed the balance.
		if len(policy.waited) == 0 || len(policy.failed) > 0 || took < time.Second {
			t.Errorf("error texts that the policy cannot parse: %q", policy.failed)
		}
	})
	host, port, err := net.SplitHostPort(db.CQLAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	other := func(name string, command ...string) {
		t.Run(name, func(t *testing.T) {
			table(name)
			args := append(command[1:], host, port, "throttled."+name, fmt.Sprint(throttledWrites), fmt.Sprint(kb100))
			out, err := osexec.Command(command[0], args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%s", out)
			var n int
			if err := s.Query("SELECT count(*) FROM throttled." + name).RetryPolicy(&backOff{}).Idempotent(true).
				Scan(&n); err != nil ||
				n != throttledWrites {
				t.Errorf("%d rows, %v", n, err)
			}
		})
	}
	if *python != "" {
		other("python", *python, "../compat/throttled.py")
	}
	if *java != "" {
		other("java", "java", "-cp", *java, "../compat/java/Throttled.java")
	}
}

// priceOf executes a statement and returns its cost.
func priceOf(s *gocql.Session, stmt string, args ...any) (ru float64, err error) {
	it := s.Query(stmt, args...).CustomPayload(map[string][]byte{"RequestCharge": {1}}).Iter()
	ru = chargeOf(it.GetCustomPayload())
	return ru, it.Close()
}

// shop starts a database with the table shop.orders and connects to the database.
func shop(t *testing.T, orders string) (addr string, s *gocql.Session) {
	t.Helper()
	db, err := ilion.Start(t.Context(), ilion.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	addr = db.CQLAddr().String()
	s = connect(t, addr, 4)
	exec(t, s, "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	exec(t, s, "CREATE TABLE shop.orders "+orders)
	return addr, s
}

// TestQueryPrice is an application test in the form that docs/request-units.md recommends. The test checks that the
// list of a customer's orders costs at most 12 request units.
func TestQueryPrice(t *testing.T) {
	_, s := shop(t, "(customer int, at int, items text, PRIMARY KEY (customer, at))")
	for i := range 500 {
		exec(t, s, "INSERT INTO shop.orders (customer, at, items) VALUES (?, ?, ?)", i%10, i, strings.Repeat("x", 1500))
	}

	const list = "SELECT at, items FROM shop.orders WHERE customer = ? ORDER BY at DESC LIMIT 50"
	ru, err := priceOf(s, list, 7)
	if err != nil || !(ru > 0 && ru <= 12) {
		t.Errorf("the list of orders costs %.2f RU, limit 12 RU; %v", ru, err)
	}

	// EXPLAIN reports the same cost without reading, and a charge limit applies.
	row := map[string]any{}
	explained := "EXPLAIN " + strings.Replace(list, "?", "7", 1) // gocql does not bind the values of this statement
	if err := s.Query(explained).MapScan(row); err != nil || row["min_ru"] != ru || row["max_ru"] != ru ||
		row["partitions"] != 1 {
		t.Errorf("%v, %v", row, err)
	}
	allow := func(most float64) error {
		value := binary.BigEndian.AppendUint64(nil, math.Float64bits(most))
		policy := &gocql.SimpleRetryPolicy{NumRetries: 3}
		it := s.Query(list, 7).CustomPayload(map[string][]byte{"MaxRequestCharge": value}).RetryPolicy(policy).
			Idempotent(true).Iter()
		return it.Close()
	}
	if err := allow(ru); err != nil {
		t.Error(err)
	}
	var refused gocql.RequestError
	if err := allow(ru - 0.01); !errors.As(err, &refused) || refused.Code() != gocql.ErrCodeInvalid {
		t.Errorf("charge limit below the cost: %v", err)
	}
}
