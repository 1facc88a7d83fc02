// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"log/slog"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/access"
)

// Key is a key of an account. A key with an empty Secret admits no clients.
type Key struct {
	Name   string
	Secret []byte
}

// AccountOptions configures an Account. All fields except Keys are optional.
type AccountOptions struct {
	// Keys returns the current keys.
	Keys func() []Key
	// Log receives failures. If Log is nil, failures are not logged.
	Log *slog.Logger
	// Observer is notified of every attempt. If an attempt succeeds, name is the name of the key.
	Observer Observer
}

// Account checks logins as in Azure Cosmos DB. Clients send a key in base64 and the name of an account, which is
// ignored. An Account is safe for concurrent use.
//
// A login with the correct key succeeds immediately, regardless of the number of failures from the same address. A key
// has 64 random bytes, so clients cannot guess it. In addition, the comparison is cheap. Clients with wrong keys are
// delayed in the same way as clients with wrong passwords (LI5).
type Account struct {
	opts          AccountOptions
	afterFailures queue
	failures      failures
	*outcomes
}

// NewAccount returns an Account.
func NewAccount(o AccountOptions) *Account {
	a := &Account{opts: o, outcomes: newOutcomes(o.Log, o.Observer)}
	a.afterFailures.slots = make(chan struct{}, waitingMax)
	return a
}

// Authenticate returns the name of the key of a client at an address. If the key is wrong, Authenticate returns
// dberr.BadCredentials. If too many clients are waiting, it returns dberr.Overloaded.
func (a *Account) Authenticate(ctx context.Context, from netip.Addr, name, password string) (access.Login, error) {
	key := a.key(password)
	if key != "" {
		a.tell(ctx, from, key, nil)
		return access.Login{Role: key}, nil
	}
	wait := a.failures.delay(from, name)
	a.failures.add(from, name)
	err := a.afterFailures.enter(ctx, wait, from)
	if err == nil {
		<-a.afterFailures.slots
		err = incorrect(name)
	}
	a.tell(ctx, from, name, err)
	return access.Login{}, err
}

// key returns the name of the key that matches the text. It returns an empty string if no key matches. It runs in
// constant time.
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

// keyTextMax is the maximum length of a password that is compared with the keys.
const keyTextMax = 1024
