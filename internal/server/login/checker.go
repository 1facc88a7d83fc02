// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Options configures a Checker. All fields except Roles are optional.
type Options struct {
	// Users lists the configured users. They have precedence over roles.
	Users access.ConfiguredUsers
	// Roles holds all other roles. *session.Authority implements it.
	Roles interface{ State() *access.State }
	// Log receives failures. If Log is nil, failures are not logged.
	Log *slog.Logger
	// Observer is notified of every attempt.
	Observer Observer
}

// These are the limits of guarantee LI4.
const (
	// checksAtOnce is the maximum number of concurrent password checks per queue.
	checksAtOnce = 2
	// waitingMax is the maximum number of clients that wait in a queue. lineMax is the maximum number of waiting
	// clients of one network.
	waitingMax = 4096
	// passwordBytesMax is the number of bytes that bcrypt uses. If longer passwords were accepted, only their first
	// bytes would be compared.
	passwordBytesMax = 72
	// nameBytesMax is the maximum number of bytes of a name that are stored and logged.
	nameBytesMax = access.NameBytesMax
)

// Checker checks logins. A Checker is safe for concurrent use.
//
// bcrypt is slow by design, but a driver opens dozens of connections with the same password. For this reason, the last
// correct password of each user is cached in memory as a salted SHA-256 hash.
type Checker struct {
	opts          Options
	salt          [32]byte
	stranger      []byte // a hash that no password matches and whose comparison takes as long as other comparisons
	clean         queue
	afterFailures queue
	failures      failures
	lines         lines
	*outcomes

	mu    sync.Mutex
	known map[string]remembered
}

// remembered is a password that matched a hash.
type remembered struct {
	hash   string
	digest [32]byte
}

// New returns a Checker. If a hash in the configuration is invalid, New returns an error.
func New(o Options) (*Checker, error) {
	for name, hash := range o.Users {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("auth.users: the hash of user %q is not a bcrypt hash. Create a hash with ilion "+
				"hash-password", name)
		}
	}
	c := &Checker{opts: o, outcomes: newOutcomes(o.Log, o.Observer), known: map[string]remembered{}}
	c.clean.slots, c.afterFailures.slots = make(chan struct{}, checksAtOnce), make(chan struct{}, checksAtOnce)
	if _, err := rand.Read(c.salt[:]); err != nil {
		return nil, fmt.Errorf("cannot generate a salt: %w", err)
	}
	var err error
	c.stranger, err = bcrypt.GenerateFromPassword(c.salt[:], bcrypt.DefaultCost)
	return c, err
}

// Authenticate returns the role of a client at an address. The result includes the record whose password matched. If
// the login fails, Authenticate returns dberr.BadCredentials. If too many logins are being checked, it returns
// dberr.Overloaded.
func (c *Checker) Authenticate(ctx context.Context, from netip.Addr, name, password string) (access.Login, error) {
	record, err := c.authenticate(ctx, from, name, password)
	c.tell(ctx, from, name, err)
	if err != nil {
		return access.Login{}, err
	}
	return access.Login{Role: name, Version: record}, nil
}

// Failed counts, logs, and reports a login that other code has rejected, such as a login with a certificate.
func (c *Checker) Failed(ctx context.Context, from netip.Addr, name string, err error) {
	c.tell(ctx, from, name, err)
}

func (c *Checker) authenticate(ctx context.Context, from netip.Addr, name, password string) (access.RoleVersion,
	error) {
	hash, login, record := c.role(name)
	digest := sha256.Sum256(append(append(c.salt[:], name...), "\x00"+password...))
	if !c.remembers(name, hash, digest) {
		right, err := c.check(ctx, &attempt{from, name, hash, password, digest})
		if err != nil {
			return record, err
		}
		if !right {
			return record, incorrect(name)
		}
	}
	c.failures.good(from, name)
	if !login {
		return record, &dberr.BadCredentials{Message: name + " is not permitted to log in"}
	}
	return record, nil
}

// role returns the hash of a role's password and the version of the role's record. login reports whether the role may
// log in. The hash is empty if the role has no password.
func (c *Checker) role(name string) (hash string, login bool, record access.RoleVersion) {
	r := c.opts.Roles.State().Role(name)
	if hash, ok := c.opts.Users[name]; ok {
		return hash, true, r.Version()
	}
	if r != nil {
		return r.Hash, r.Login, r.Version()
	}
	return "", false, record
}

func (c *Checker) remembers(name, hash string, digest [32]byte) bool {
	c.mu.Lock()
	k, ok := c.known[name]
	c.mu.Unlock()
	return ok && k.hash == hash && subtle.ConstantTimeCompare(k.digest[:], digest[:]) == 1
}

// remember caches a correct password. The cache holds only existing roles, because entries of dropped roles are removed
// first.
func (c *Checker) remember(name, hash string, digest [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= rememberedMax {
		clear(c.known)
	}
	c.known[name] = remembered{hash, digest}
}

// rememberedMax is the maximum number of cached passwords. A full cache is cleared.
const rememberedMax = 10_000

// attempt is a client's attempt to log in with a user name and a password.
type attempt struct {
	from                 netip.Addr
	name, hash, password string
	digest               [32]byte
}

// check compares a password with a hash when the client's turn has come.
func (c *Checker) check(ctx context.Context, a *attempt) (right bool, err error) {
	wait := c.failures.delay(a.from, a.name)
	if wait > 0 {
		return c.compare(ctx, &c.afterFailures, wait, a)
	}
	in, err := c.lines.join(ctx, network(a.from))
	switch {
	case err != nil:
		return false, errTooMany
	case in == nil:
		return c.compare(ctx, &c.afterFailures, waitMin, a)
	}
	if wait = c.failures.delay(a.from, a.name); wait > 0 { // earlier attempts have failed
		c.lines.leave(in)
		return c.compare(ctx, &c.afterFailures, wait, a)
	}
	defer c.lines.leave(in)
	return c.compare(ctx, &c.clean, 0, a)
}

// compare waits, takes a slot of a queue, and compares the password. It omits the comparison if another check has
// accepted the password during the wait.
func (c *Checker) compare(ctx context.Context, q *queue, wait time.Duration, a *attempt) (right bool, err error) {
	if err := q.enter(ctx, wait, a.from); err != nil {
		return false, err
	}
	defer func() { <-q.slots }()
	if c.remembers(a.name, a.hash, a.digest) {
		return true, nil
	}
	against, cut := []byte(a.hash), a.password
	if a.hash == "" {
		against = c.stranger
	}
	if len(cut) > passwordBytesMax {
		cut = cut[:passwordBytesMax]
	}
	right = bcrypt.CompareHashAndPassword(against, []byte(cut)) == nil
	if right = right && a.hash != "" && len(a.password) <= passwordBytesMax; !right {
		c.failures.add(a.from, a.name)
		return false, nil
	}
	c.remember(a.name, a.hash, a.digest)
	c.failures.forgive(a.from)
	return true, nil
}

var errTooMany = &dberr.Overloaded{Message: "Too many logins are being checked. Retry later"}

// incorrect returns the error for a wrong user name or password.
func incorrect(name string) error {
	return &dberr.BadCredentials{Message: fmt.Sprintf("Provided username %s and/or password are incorrect", name)}
}

func shorten(s string) string {
	if len(s) > nameBytesMax {
		return s[:nameBytesMax]
	}
	return s
}
