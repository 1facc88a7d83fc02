// SPDX-License-Identifier: Apache-2.0

package login

import (
	"net/netip"
	"sync"
	"time"
)

// failures remembers the addresses and the names whose logins failed lately. A name is under suspicion only for
// addresses from where it was never right, so that nobody can lock a user out by failing in that user's name.
type failures struct {
	now func() time.Time

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
	// free is how often an address may fail before it has to wait; a name that is tried from everywhere more often.
	free, freeOfName = 3, 20
	// forgotten is how long a failure counts.
	forgotten = 10 * time.Minute
	// The first wait, which doubles with every failure up to the last.
	waitMin, waitMax = 100 * time.Millisecond, 3 * time.Second
	// rememberedFailures bounds each of the three maps. One that is full forgets what is old, or else everything.
	rememberedFailures = 10_000
)

// network is what is taken for one client: an IPv4 address, or the network that an IPv6 customer gets.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// add notes a failure.
func (f *failures) add(from netip.Addr, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil {
		f.from, f.names = map[netip.Prefix]failed{}, map[string]failed{}
	}
	count(f, f.from, network(from))
	count(f, f.names, shorten(name))
}

func count[K comparable](f *failures, m map[K]failed, key K) {
	now := f.now()
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
	m[key] = failed{f.recent(m[key]) + 1, now}
}

func (f *failures) recent(e failed) int {
	if f.now().Sub(e.last) > forgotten {
		return 0
	}
	return e.count
}

// forgive forgets the failures of an address from where a password was right that was not remembered. One that is
// remembered forgives nothing: a client that knows one password could look for others for ever.
func (f *failures) forgive(from netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.from, network(from))
}

// good notes that a name was right from an address.
func (f *failures) good(from netip.Addr, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.right == nil || len(f.right) >= rememberedFailures {
		f.right = map[pair]struct{}{}
	}
	f.right[pair{network(from), shorten(name)}] = struct{}{}
}

// delay is how long an attempt has to wait, 0 for one that is not suspect.
func (f *failures) delay(from netip.Addr, name string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := network(from)
	over := f.recent(f.from[n]) - free
	if _, ok := f.right[pair{n, shorten(name)}]; !ok {
		over = max(over, f.recent(f.names[shorten(name)])-freeOfName)
	}
	if over < 0 {
		return 0
	}
	return min(waitMin<<min(over, 10), waitMax)
}
