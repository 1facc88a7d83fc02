// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"sync"

	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Passwords is an Authenticator that checks names and passwords against bcrypt hashes.
//
// bcrypt is slow on purpose; a driver opens dozens of connections with the same password, so the last password that was
// right is remembered for each user, as a salted SHA-256 that lives in memory only.
type Passwords struct {
	hashes map[string][]byte
	salt   [32]byte
	slots  chan struct{} // bounds how many hashes are computed at once

	mu    sync.Mutex
	known map[string][32]byte
}

// checksAtOnce bounds the processors that strangers can keep busy with wrong passwords.
const checksAtOnce = 2

// NewPasswords admits the users whose names and bcrypt hashes are given.
func NewPasswords(users map[string]string) (*Passwords, error) {
	p := &Passwords{hashes: map[string][]byte{}, known: map[string][32]byte{}, slots: make(chan struct{}, checksAtOnce)}
	for name, hash := range users {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("auth.users: the hash of user %q is not a bcrypt hash: make one with ilion hash-password", name)
		}
		p.hashes[name] = []byte(hash)
	}
	if _, err := rand.Read(p.salt[:]); err != nil {
		return nil, fmt.Errorf("random salt: %w", err)
	}
	return p, nil
}

// Authenticate implements Authenticator: it returns the user's name as the role to act as.
func (p *Passwords) Authenticate(ctx context.Context, user, password string) (string, error) {
	refused := &dberr.BadCredentials{Message: fmt.Sprintf("Provided username %s and/or password are incorrect", user)}
	hash, exists := p.hashes[user]
	digest := sha256.Sum256(append(append(p.salt[:], user...), "\x00"+password...))
	p.mu.Lock()
	known, have := p.known[user]
	p.mu.Unlock()
	if have && subtle.ConstantTimeCompare(known[:], digest[:]) == 1 {
		return user, nil
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return "", &dberr.Overloaded{Message: "Too many logins are being checked: try again"}
	}
	if !exists {
		// As slow as for a user who exists, so that names cannot be probed.
		for _, any := range p.hashes {
			_ = bcrypt.CompareHashAndPassword(any, []byte(password))
			break
		}
		return "", refused
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil {
		return "", refused
	}
	p.mu.Lock()
	p.known[user] = digest
	p.mu.Unlock()
	return user, nil
}
