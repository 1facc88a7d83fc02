// SPDX-License-Identifier: Apache-2.0

package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hashed(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// loginTest is a Checker with a state that tests change.
type loginTest struct {
	*Checker
	state *access.State
}

func (d *loginTest) State() *access.State { return d.state }

func newLoginTest(t *testing.T, roles ...*access.Role) *loginTest {
	d := &loginTest{state: &access.State{}}
	for _, r := range roles {
		d.state = d.state.WithRole(r)
	}
	var err error
	d.Checker, err = New(Options{Users: access.ConfiguredUsers{"boss": hashed(t, "b")}, Roles: d})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var here, there = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

func (d *loginTest) try(from netip.Addr, name, password string) string {
	login, err := d.Authenticate(context.Background(), from, name, password)
	switch role := login.Role; {
	case err != nil:
		return err.Error()
	case role != name:
		return "is " + role
	}
	return ""
}

// TestLogins checks which logins succeed. Changes to a role must take effect immediately.
func TestLogins(t *testing.T) {
	long := strings.Repeat("x", 72)
	d := newLoginTest(t,
		&access.Role{Name: "app", Login: true, Hash: hashed(t, "a")},
		&access.Role{Name: "group", Hash: hashed(t, "g")},
		&access.Role{Name: "empty", Login: true},
		&access.Role{Name: "long", Login: true, Hash: hashed(t, long)},
		&access.Role{Name: "boss", Login: true, Hash: hashed(t, "other")},
	)
	wrong := func(name string) string { return "Provided username " + name + " and/or password are incorrect" }
	for range 2 { // in the second round, the checker has cached correct passwords
		for _, test := range [][3]string{
			{"app", "a", ""},
			{"app", "b", wrong("app")},
			{"boss", "b", ""},
			{"boss", "other", wrong("boss")}, // the configuration has precedence
			{"group", "g", "group is not permitted to log in"},
			{"group", "x", wrong("group")},
			{"empty", "", wrong("empty")},
			{"nobody", "a", wrong("nobody")},
			{"long", long, ""},
			{"long", long + "y", wrong("long")}, // bcrypt reads 72 bytes
		} {
			if got := d.try(here, test[0], test[1]); got != test[2] {
				t.Errorf("%s with %.10s: %q, want %q", test[0], test[1], got, test[2])
			}
			d.failures.forgive(here) // this test does not check delays
		}
	}
	d.state = d.state.WithRole(&access.Role{Name: "app", Login: true, Hash: hashed(t, "new")})
	if got := d.try(here, "app", "a"); got != wrong("app") {
		t.Errorf("the old password: %q", got)
	}
	if got := d.try(here, "app", "new"); got != "" {
		t.Errorf("the new password: %q", got)
	}
	d.state = d.state.WithoutRole("app")
	if got := d.try(here, "app", "new"); got != wrong("app") {
		t.Errorf("a dropped role: %q", got)
	}
	if in, failed, _ := d.Counts(); in != 7 || failed != 16 {
		t.Errorf("%d came in, %d failed", in, failed)
	}
}

// TestThrottle checks the delays of failing addresses in virtual time (LI1, LI2). Clients at an address with failures
// must wait increasingly long. Other addresses must be able to log in immediately. The same applies to clients at that
// address whose password is cached, because such a password needs no bcrypt check.
func TestThrottle(t *testing.T) {
	d := newLoginTest(t, &access.Role{Name: "app", Login: true, Hash: hashed(t, "a")},
		&access.Role{Name: "two", Login: true, Hash: hashed(t, "2")})
	synctest.Test(t, func(t *testing.T) {
		took := func(from netip.Addr, name, password string) time.Duration {
			began := time.Now()
			d.try(from, name, password)
			return time.Since(began)
		}
		if got := took(here, "two", "2"); got != 0 {
			t.Errorf("the first login took %v", got)
		}
		for i, want := range []time.Duration{0, 0, 0, waitMin, 2 * waitMin, 4 * waitMin} {
			if got := took(here, "app", "wrong"); got != want {
				t.Errorf("failure %d took %v, want %v", i, got, want)
			}
		}
		for range 20 {
			if got := took(here, "app", "wrong"); got > waitMax {
				t.Errorf("a failure took %v", got)
			}
		}
		// More clients than allowed wait, so the excess clients receive an error.
		refused := make(chan error, lineMax+10)
		for range lineMax + 10 {
			go func() {
				_, err := d.Authenticate(context.Background(), here, "app", "wrong")
				refused <- err
			}()
		}
		synctest.Wait()
		if n := len(refused); n != 10 {
			t.Errorf("%d of %d were rejected immediately, want 10", n, cap(refused))
		}
		for range 10 {
			if e, ok := errors.AsType[*dberr.Overloaded](<-refused); !ok {
				t.Errorf("rejected with %v", e)
			}
		}
		if got := took(here, "two", "2"); got != 0 {
			t.Errorf("a remembered password at the address that fails took %v", got)
		}
		if got := took(there, "boss", "b"); got != 0 {
			t.Errorf("a login from elsewhere took %v", got)
		}
		for range lineMax {
			<-refused
		}
		time.Sleep(forgotten + time.Second)
		if got := took(here, "app", "wrong"); got != 0 {
			t.Errorf("after a while a failure took %v", got)
		}
	})
}

// TestManyAtOnce checks an address that sends all its attempts at the same time, before any of them has failed (LI2).
// A login from another address must wait for only one of these attempts. The clients of one driver must log in with a
// single check.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newLoginTest(t, &access.Role{Name: "app", Login: true, Hash: hashed(t, "a")})
		for range checksAtOnce {
			d.clean.slots <- struct{}{}
		}
		answers := make(chan string, 1000)
		try := func(n int, from netip.Addr, name, password string) {
			for range n {
				go func() { answers <- d.try(from, name, password) }()
			}
		}
		try(lineMax, here, "app", "wrong")
		try(lineMax, there, "boss", "b")
		synctest.Wait()
		if n := d.clean.waiting.Load(); n != 2 {
			t.Errorf("%d wait in the clean queue", n)
		}
		for range checksAtOnce {
			<-d.clean.slots
		}
		in := 0
		for range 2 * lineMax {
			if <-answers == "" {
				in++
			}
		}
		if in != lineMax {
			t.Errorf("%d of %d clients have logged in", in, lineMax)
		}
		if len(d.lines.of) != 0 {
			t.Errorf("%d lines are left", len(d.lines.of))
		}
	})
}

// TestGuessesLockNobodyOut checks that a correct password is accepted from a new address. Another address continuously
// sends as many wrong passwords as possible. The number of log lines must stay limited.
func TestGuessesLockNobodyOut(t *testing.T) {
	d := newLoginTest(t, &access.Role{Name: "app", Login: true, Hash: hashed(t, "a")})
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d.outcomes.log = slog.New(slog.NewTextHandler(&log, nil))
		ctx, stop := context.WithCancel(t.Context())
		var guessing sync.WaitGroup
		for range 300 {
			guessing.Go(func() {
				for ctx.Err() == nil {
					_, _ = d.Authenticate(ctx, there, "app", "wrong")
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if d.failures.delay(here, "app") == 0 {
			t.Error("the name is not under attack")
		}
		began := time.Now()
		if got := d.try(here, "app", "a"); got != "" {
			t.Errorf("the right password: %s", got)
		}
		if took := time.Since(began); took > waitMax {
			t.Errorf("it waited for %v", took)
		}
		stop()
		guessing.Wait()
		lines := strings.Count(log.String(), "\n")
		if failed, most := strings.Count(log.String(), "omitted"), 30*failureLines; failed < 20 || lines > most {
			t.Errorf("%d lines, %d of failures; at most %d", lines, failed, most)
		}
		if len(d.afterFailures.of) > 0 || d.afterFailures.waiting.Load() != 0 {
			t.Errorf("%d networks still wait", len(d.afterFailures.of))
		}
	})
}

// TestNameUnderAttack checks a user name that clients at many addresses try to guess. Logins with this name must be
// delayed, except from addresses that have logged in with the name.
func TestNameUnderAttack(t *testing.T) {
	d := newLoginTest(t, &access.Role{Name: "app", Login: true, Hash: hashed(t, "a")})
	if got := d.try(here, "app", "a"); got != "" {
		t.Fatal(got)
	}
	for i := range freeOfName {
		d.failures.add(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), "app")
	}
	if d.failures.delay(here, "app") != 0 {
		t.Error("an address that has logged in before waits")
	}
	if d.failures.delay(there, "app") == 0 {
		t.Error("an address that has never logged in does not wait")
	}
	if d.failures.delay(there, "other") != 0 {
		t.Error("another name waits")
	}
}

// TestBounds checks that unauthenticated clients cannot use unlimited memory (LI4). The test also checks which
// addresses count as one network.
func TestBounds(t *testing.T) {
	var f failures
	for i := range 2*rememberedFailures + 5 {
		a := netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
		f.add(a, fmt.Sprint(i))
		f.good(a, fmt.Sprint(i))
	}
	if len(f.from) > rememberedFailures || len(f.names) > rememberedFailures || len(f.right) > rememberedFailures {
		t.Errorf("remembered: %d addresses, %d names, %d pairs", len(f.from), len(f.names), len(f.right))
	}
	a, b := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:1")
	if network(a) != network(b) || network(here) == network(there) ||
		network(netip.MustParseAddr("::ffff:10.0.0.1")) != network(here) {
		t.Error("the networks of addresses are wrong")
	}
}
