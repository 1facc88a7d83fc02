// SPDX-License-Identifier: Apache-2.0

package login

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// TestAccountKeys checks that only existing keys are accepted. A changed key must take effect immediately, and keys
// must not be logged.
func TestAccountKeys(t *testing.T) { synctest.Test(t, testAccountKeys) }

func testAccountKeys(t *testing.T) {
	var log bytes.Buffer
	secret := func(b byte) []byte { return bytes.Repeat([]byte{b}, 64) }
	text := func(b byte) string { return base64.StdEncoding.EncodeToString(secret(b)) }
	keys := []Key{{"primary", secret(1)}, {"secondary", nil}, {"read-only", secret(3)}}
	a := NewAccount(AccountOptions{Keys: func() []Key { return keys }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	try := func(password, want string) {
		t.Helper()
		login, err := a.Authenticate(context.Background(), netip.MustParseAddr("10.0.0.1"), "account", password)
		key := login.Role
		if _, wrong := errors.AsType[*dberr.BadCredentials](err); key != want || wrong != (want == "") {
			t.Errorf("%.12s: %q, %v, want %q", password, key, err, want)
		}
	}
	try(text(1), "primary")
	try(text(3), "read-only")
	for _, wrong := range []string{"", text(2), text(1)[:80], text(1) + text(1), "no base64",
		strings.Repeat("A", 1<<20)} {
		try(wrong, "")
	}
	keys = []Key{{"primary", secret(4)}}
	try(text(1), "")
	try(text(4), "primary")
	if in, failed, refused := a.Counts(); in != 3 || failed != 7 || refused != 0 {
		t.Errorf("%d logins, %d failures, %d rejections", in, failed, refused)
	}
	for b := range byte(5) {
		if strings.Contains(log.String(), text(b)[:20]) {
			t.Error("the log has a key")
		}
	}
}

// TestAccountGuesses checks the delays of clients with wrong keys in virtual time (LI5). Clients at an address with
// failures must wait increasingly long. Only a limited number of these clients can wait. A correct key must be
// accepted immediately, from that address and from other addresses.
func TestAccountGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		right := bytes.Repeat([]byte{7}, 64)
		a := NewAccount(AccountOptions{Keys: func() []Key { return []Key{{"primary", right}} }})
		took := func(from netip.Addr, password string) (time.Duration, error) {
			began := time.Now()
			_, err := a.Authenticate(context.Background(), from, "account", password)
			return time.Since(began), err
		}
		for i, want := range []time.Duration{0, 0, 0, waitMin, 2 * waitMin, 4 * waitMin} {
			if got, err := took(here, "wrong"); got != want || err == nil {
				t.Errorf("failure %d took %v, want %v; %v", i, got, want, err)
			}
		}
		answers := make(chan error, lineMax+10)
		for range lineMax + 10 {
			go func() { _, err := took(here, "wrong"); answers <- err }()
		}
		synctest.Wait()
		if n := len(answers); n != 10 {
			t.Errorf("%d were rejected immediately, want 10", n)
		}
		for _, from := range []netip.Addr{here, there} {
			if got, err := took(from, base64.StdEncoding.EncodeToString(right)); got != 0 || err != nil {
				t.Errorf("a right key took %v: %v", got, err)
			}
		}
		for range lineMax + 10 {
			<-answers
		}
	})
}
