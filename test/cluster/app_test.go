// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// appSchema holds the tables of the application, which app_test.go implements in Go and app.py in Python.
var appSchema = []string{
	"CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 4}",
	"CREATE TABLE app.items (k bigint PRIMARY KEY, v bigint, tag bigint)",
	"CREATE INDEX items_tag ON app.items (tag)",
	"CREATE TABLE app.counts (k bigint PRIMARY KEY, n counter)",
	"CREATE TABLE app.debits (k bigint PRIMARY KEY, v bigint)",
	"CREATE TABLE app.credits (k bigint PRIMARY KEY, v bigint)",
}

const (
	appUsers = 4
	// itemsKept is the number of rows that each user keeps.
	itemsKept = 100
	// appKeys is the first key of the users. It is greater than all keys of the grower. Each user has a separate range
	// of keys.
	appKeys = int64(1) << 40
)

// app is an application that uses the Go driver in the usual way. Each of its users has separate rows, so the expected
// result of every request is known.
type app struct {
	session *gocql.Session
	l       *load
	asked   atomic.Int64
	stop    atomic.Bool
	wg      sync.WaitGroup
	users   []*user
}

// item is a row of app.items.
type item struct {
	k, v, tag, oldTag int64
	acked             time.Time
}

// user is a user of the application. user runs in a separate goroutine.
type user struct {
	*app
	next  int64 // the last key or tag that was used
	items []*item
	// count is the key of the current counter. counted is its value.
	count, counted int64
}

// startApp starts the users.
func startApp(l *load, s *gocql.Session) *app {
	a := &app{session: s, l: l}
	for id := range int64(appUsers) {
		u := &user{app: a, next: appKeys + id<<32}
		u.count = u.take()
		a.users = append(a.users, u)
		a.wg.Go(func() {
			for !a.stop.Load() {
				u.work()
			}
		})
	}
	return a
}

// end stops the users.
func (a *app) end() {
	a.stop.Store(true)
	a.wg.Wait()
}

func (u *user) take() int64 {
	u.next++
	return u.next
}

// ok counts a request and reports whether it succeeded.
func (a *app) ok(what string, err error) bool {
	a.asked.Add(1)
	if err != nil {
		a.l.unanswered("%s: %v", what, err)
	}
	return err == nil
}

func (u *user) work() {
	if len(u.items) < itemsKept {
		u.insert(&item{k: u.take()})
		return
	}
	i := rand.IntN(len(u.items))
	switch n := rand.IntN(100); {
	case n < 20:
		u.insert(u.items[i])
	case n < 50:
		u.read(u.items[i], n%2 == 0)
	case n < 65:
		u.find(u.items[i])
	case n < 80:
		u.swap(i)
	case n < 90:
		u.increment()
	default:
		u.transfer()
	}
}

// insert writes a new version of an item. If the request fails, the user no longer uses the item.
func (u *user) insert(x *item) {
	i := slices.Index(u.items, x)
	tag := u.take()
	err := u.session.Query("INSERT INTO app.items (k, v, tag) VALUES (?, ?, ?)", x.k, x.v+1, tag).Exec()
	switch answered := u.ok("insert", err); {
	case !answered && i >= 0:
		u.items = slices.Delete(u.items, i, i+1)
	case answered:
		x.v, x.oldTag, x.tag, x.acked = x.v+1, x.tag, tag, time.Now()
		if i < 0 {
			u.items = append(u.items, x)
		}
	}
}

// read reads an item at QUORUM or ONE. A read at ONE may return a slightly older version.
func (u *user) read(x *item, quorum bool) {
	level, least := gocql.Quorum, x.v
	if !quorum {
		if level = gocql.One; time.Since(x.acked) < stalenessMax {
			least = 0
		}
	}
	var v int64
	err := u.session.Query("SELECT v FROM app.items WHERE k = ?", x.k).Consistency(level).Scan(&v)
	if errors.Is(err, gocql.ErrNotFound) {
		err = nil
	}
	if u.ok("read", err) && (v < least || v > x.v) {
		u.l.fail("item %d at %v has %d, want %d to %d", x.k, level, v, least, x.v)
	}
}

// find searches for an item by its current tag and by its previous tag.
func (u *user) find(x *item) {
	for tag, want := range map[int64][]int64{x.tag: {x.k}, x.oldTag: nil} {
		if tag == 0 {
			continue
		}
		var found []int64
		var k int64
		rows := u.session.Query("SELECT k FROM app.items WHERE tag = ?", tag).Consistency(gocql.Quorum).Iter()
		for rows.Scan(&k) {
			found = append(found, k)
		}
		if u.ok("index query", rows.Close()) && !slices.Equal(found, want) {
			u.l.fail("the index finds %v of tag %d, want %v", found, tag, want)
		}
	}
}

// swap updates an item conditionally. It first tries a condition that does not hold.
func (u *user) swap(i int) {
	x := u.items[i]
	for _, from := range []int64{x.v + 7, x.v} {
		tag := u.take()
		var v int64
		applied, err := u.session.Query("UPDATE app.items SET v = ?, tag = ? WHERE k = ? IF v = ?", from+1, tag, x.k,
			from).Idempotent(false).ScanCAS(&v)
		switch {
		case !u.ok("condition", err):
			u.items = slices.Delete(u.items, i, i+1)
			return
		case applied != (from == x.v) || !applied && v != x.v:
			u.l.fail("IF v = %d of item %d: %t, %d, but it was %d", from, x.k, applied, v, x.v)
		case applied:
			x.v, x.oldTag, x.tag, x.acked = from+1, x.tag, tag, time.Now()
		}
	}
}

// increment increments the counter and reads it. If the increment fails, the user no longer uses the counter.
func (u *user) increment() {
	err := u.session.Query("UPDATE app.counts SET n = n + 1 WHERE k = ?", u.count).Idempotent(false).Exec()
	if !u.ok("increment", err) {
		u.count, u.counted = u.take(), 0
		return
	}
	u.counted++
	var n int64
	err = u.session.Query("SELECT n FROM app.counts WHERE k = ?", u.count).Consistency(gocql.Quorum).Scan(&n)
	if u.ok("read of a counter", err) && n != u.counted {
		u.l.fail("counter %d is %d, want %d", u.count, n, u.counted)
	}
}

// transfer writes two tables in one LOGGED batch and reads both.
func (u *user) transfer() {
	k := u.take()
	b := u.session.Batch(gocql.LoggedBatch)
	for _, table := range []string{"debits", "credits"} {
		b.Query(fmt.Sprintf("INSERT INTO app.%s (k, v) VALUES (?, ?)", table), k, k+1)
	}
	if !u.ok("logged batch", b.Exec()) {
		return
	}
	for _, table := range []string{"debits", "credits"} {
		var v int64
		err := u.session.Query(fmt.Sprintf("SELECT v FROM app.%s WHERE k = ?", table), k).
			Consistency(gocql.Quorum).Scan(&v)
		if missing := errors.Is(err, gocql.ErrNotFound); u.ok("read of a batch", err) && v != k+1 || missing {
			u.l.fail("%s %d is %d after its batch: %v", table, k, v, err)
		}
	}
}

// check reads all data of the users again and compares it with the expected data.
func (a *app) check(t testing.TB) {
	t.Helper()
	failed := a.l.failures()
	for _, u := range a.users {
		for _, x := range u.items {
			u.read(x, true)
			u.find(x)
		}
		u.increment()
	}
	if n := a.l.failures() - failed; n > 0 {
		t.Errorf("%d rows differ from their last write", n)
	}
}
