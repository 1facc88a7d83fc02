// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
)

// Key is a key of an account. One whose Secret is empty admits nobody.
type Key struct {
	Name   string
	Secret []byte
}

// AccountOptions are those of an Account. The zero value of all but Keys is useful.
type AccountOptions struct {
	// Keys are those of now.
	Keys func() []Key
	// Log hears of failures; nil: nobody does.
	Log *slog.Logger
	// Told hears of every attempt: its outcome is nil if the client is in, and the name is that of the key then.
	Told func(from netip.Addr, name string, outcome error)
	// Now is the clock, After waits; those of package time if nil.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Account checks logins as those of Azure Cosmos DB: with the name of an account, which may be any, and one of its keys
// in base64. It is safe for concurrent use.
//
// A right key is in at once, however many wrong ones come from the same address: it cannot be guessed, as it has 64
// bytes by chance, and comparing it is no work. Wrong ones wait as wrong passwords do, before they hear of it (LI5).
type Account struct {
	opts     AccountOptions
	suspect  queue
	failures failures
	outcomes
}

// NewAccount makes an account.
func NewAccount(o AccountOptions) *Account {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	a := &Account{opts: o, outcomes: newOutcomes(o.Log, o.Told, o.Now)}
	a.suspect.slots = make(chan struct{}, waitingMax)
	a.failures.now = o.Now
	return a
}

// Authenticate returns the name of the key that a client at an address has shown. Errors are dberr.BadCredentials, and
// dberr.Overloaded if too many are waiting.
func (a *Account) Authenticate(ctx context.Context, from netip.Addr, name, password string) (access.Login, error) {
	key := a.key(password)
	if key != "" {
		a.tell(ctx, from, key, nil)
		return access.Login{Role: key}, nil
	}
	wait := a.failures.delay(from, name)
	a.failures.add(from, name)
	err := a.suspect.enter(ctx, a.opts.After, wait, from)
	if err == nil {
		<-a.suspect.slots
		err = incorrect(name)
	}
	a.tell(ctx, from, name, err)
	return access.Login{}, err
}

// key returns the name of the key that a text is, empty if it is none. The time it takes depends on neither.
func (a *Account) key(text string) (name string) {
	if len(text) > keyTextMax {
		return ""
	}
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	for _, k := range a.opts.Keys() {
		if right := subtle.ConstantTimeCompare(k.Secret, secret); right == 1 && len(k.Secret) > 0 {
			name = k.Name
		}
	}
	return name
}

// keyTextMax bounds what is looked at of a password.
const keyTextMax = 1024
