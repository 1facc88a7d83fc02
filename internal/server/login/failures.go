// SPDX-License-Identifier: Apache-2.0

package login

import (
	"net/netip"
	"sync"
	"time"
)

// failures records recent failed logins by address and by user name. A user name is suspicious only for addresses from
// which no client has logged in with that name. Therefore, clients cannot lock out a user by repeated failures to log
// in with the user's name.
type failures struct {
	mu    sync.Mutex
	from  map[netip.Prefix]failed
	names map[string]failed
	right map[pair]struct{}
}

type failed struct {
	count int
	last  time.Time
}

type pair struct {
	from netip.Prefix
	name string
}

const (
	// free is the number of failed logins from an address before clients at the address must wait. freeOfName is the
	// number of failed logins with a user name before clients must wait. Clients may try a user name from many
	// addresses.
	free, freeOfName = 3, 20
	// forgotten is the time after which a failure is ignored.
	forgotten = 10 * time.Minute
	// waitMin is the first delay. Each failure doubles the delay, up to waitMax.
	waitMin, waitMax = 100 * time.Millisecond, 3 * time.Second
	// rememberedFailures is the maximum size of each of the three maps. When a map is full, old entries are dropped. If
	// no entry is old, all entries are dropped.
	rememberedFailures = 10_000
)

// network returns the prefix that counts as one client. The prefix is an IPv4 address, or the network that an IPv6
// customer receives.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// add records a failure.
func (f *failures) add(from netip.Addr, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil {
		f.from, f.names = map[netip.Prefix]failed{}, map[string]failed{}
	}
	count(f.from, network(from))
	count(f.names, shorten(name))
}

func count[K comparable](m map[K]failed, key K) {
	now := time.Now()
	if _, ok := m[key]; !ok && len(m) >= rememberedFailures {
		for k, v := range m {
			if now.Sub(v.last) > forgotten {
				delete(m, k)
			}
		}
		if len(m) >= rememberedFailures {
			clear(m)
		}
	}
	m[key] = failed{m[key].recent() + 1, now}
}

// recent returns the number of failures. It returns 0 if the last failure is too old to count.
func (e failed) recent() int {
	if time.Since(e.last) > forgotten {
		return 0
	}
	return e.count
}

// forgive removes the failures recorded for an address after a login with a correct password that was not cached. A
// login with a cached password has no such effect. Otherwise, a client that knows one password could guess other
// passwords indefinitely.
func (f *failures) forgive(from netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.from, network(from))
}

// good records a successful login with a user name from an address.
func (f *failures) good(from netip.Addr, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.right == nil || len(f.right) >= rememberedFailures {
		f.right = map[pair]struct{}{}
	}
	f.right[pair{network(from), shorten(name)}] = struct{}{}
}

// delay returns the delay of a login attempt. It returns 0 if the attempt is not suspicious.
func (f *failures) delay(from netip.Addr, name string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := network(from)
	over := f.from[n].recent() - free
	if _, ok := f.right[pair{n, shorten(name)}]; !ok {
		over = max(over, f.names[shorten(name)].recent()-freeOfName)
	}
	if over < 0 {
		return 0
	}
	return min(waitMin<<min(over, 10), waitMax)
}
