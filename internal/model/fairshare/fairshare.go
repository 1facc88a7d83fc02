// SPDX-License-Identifier: Apache-2.0

// Package fairshare tracks each principal's recent use of a scarce resource. The package also determines the principal
// that is served next. The package reads no clock.
//
// Guarantees:
//
//   - (SH1) If demand exceeds supply, each user gets an equal share, and each connection of a user gets an equal part
//     of the user's share. Demand does not affect the shares. Unused shares go to the other users.
//   - (SH2) Principals of low priority get the supply that principals of normal priority do not use.
//   - (SH3) Memory use does not depend on the number of principals. Users and connections are identified by hashes, so
//     principals with equal hashes have one common share.
//
// The caller keeps a balance that refills over time and shrinks with each admission. The caller admits a principal
// while the balance exceeds the fraction that Reserve returns. The reserve grows with the principal's recent use. The
// balance therefore settles at a level at which only the heaviest users wait.
package fairshare

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Principal identifies the originator of a request.
type Principal struct {
	// User and Connection identify a user and a connection of the user.
	User, Connection uint32
	// Low means that all requests of normal priority have precedence over the principal's requests.
	Low bool
}

// Internal is the principal of the database's own operations on table rows, such as building an index. It has low
// priority, except when it temporarily runs at normal priority.
var Internal = Principal{User: math.MaxUint32, Connection: math.MaxUint32, Low: true}

// IsInternal reports whether c is Internal, at any priority.
func (c Principal) IsInternal() bool {
	c.Low = true
	return c == Internal
}

// PrincipalSize is the length of an encoded Principal.
const PrincipalSize = 9

// Append appends the encoded form of c.
func (c Principal) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, c.User), c.Connection)
	low := byte(0)
	if c.Low {
		low = 1
	}
	return append(dst, low)
}

// DecodePrincipal reads the output of Append. ok is false if src is not a principal. DecodePrincipal ignores fields
// that a later build has added.
func DecodePrincipal(src []byte) (c Principal, ok bool) {
	if len(src) < PrincipalSize || src[8] > 1 {
		return c, false
	}
	return Principal{User: binary.BigEndian.Uint32(src), Connection: binary.BigEndian.Uint32(src[4:]),
		Low: src[8] == 1}, true
}

const (
	users       = 64
	connections = 16
	// halfLife is the time after which the weight of recorded use is halved.
	halfLife = 512 * time.Millisecond
)

// These constants are fractions of the maximum reserve, which is 1. The connections of a single user need reserves
// from 0 to ofConnection. A user that competes with other users needs an additional reserve of up to ofUser. The range
// of low priority starts where the range of normal priority ends.
const (
	ofUser       = 1. / 3
	ofConnection = 1. / 6
	low          = ofUser + ofConnection
	// steep is the slope of the reserve above an equal share. The reserve reaches its maximum at an eighth of the total
	// above the equal share.
	steep = 8
)

// Shares records the recent use of all principals. The zero value has no recorded use. It is safe for concurrent use.
type Shares struct {
	// epoch is the number of half-lives by which the figures have decayed.
	epoch atomic.Int64
	aging sync.Mutex
	// total is the use of all principals. low is the part of total that requests of low priority have used.
	total, low atomic.Int64
	// active is the number of users with recorded use. crowded is true if any user has several connections with
	// recorded use.
	active  atomic.Int64
	crowded atomic.Bool
	byUser  [users]user
}

type user struct {
	total atomic.Int64
	// most is the highest use of a connection.
	most atomic.Int64
	had  [connections]atomic.Int64
}

// Took records that a principal has used the given amount.
func (s *Shares) Took(c Principal, amount int64) {
	u := &s.byUser[c.User%users]
	if u.total.Add(amount) == amount {
		s.active.Add(1)
	}
	s.total.Add(amount)
	if c.Low {
		s.low.Add(amount)
	}
	had := u.had[c.Connection%connections].Add(amount)
	most := u.most.Load()
	if had > most {
		u.most.Store(had)
	}
	if had == amount && most > 0 {
		s.crowded.Store(true)
	}
}

// Rivals reports whether any other principal has recorded use. A use of c at another priority also counts.
func (s *Shares) Rivals(c Principal) bool {
	all, low := s.total.Load(), s.low.Load()
	return s.crowded.Load() || s.byUser[c.User%users].total.Load() < all || low > 0 && (!c.Low || low < all)
}

// Reserve returns the fraction of the maximum reserve that must remain for c to be admitted. The result is between 0
// and 1. now is the time since a fixed instant and never decreases.
func (s *Shares) Reserve(c Principal, now time.Duration) float64 {
	if epoch := int64(now / halfLife); epoch != s.epoch.Load() {
		s.age(epoch)
	}
	need := 0.
	if c.Low {
		need = low
	}
	u := &s.byUser[c.User%users]
	of, all := float64(u.total.Load()), float64(s.total.Load())
	if of <= 0 || all <= 0 {
		return need
	}
	// Use above an equal share of the total increases the reserve. The deduction is the same for all users, so it does
	// not favor any user.
	need += ofUser * min(1, max(0, steep*(of/all-1/float64(max(1, s.active.Load())))))
	if s.crowded.Load() {
		// The connection with the highest use gets the full increase, regardless of the use of the user's other
		// connections. Therefore, a user cannot gain by opening many connections.
		need += ofConnection * min(1,
			max(0, 1+(float64(u.had[c.Connection%connections].Load())-float64(u.most.Load()))/of))
	}
	return need
}

// before reports whether a has lower recent use than b. It compares users first, and then connections of the same
// user. Low priority comes after normal priority. now has the same meaning as in Reserve.
func (s *Shares) before(a, b Principal, now time.Duration) bool {
	if epoch := int64(now / halfLife); epoch != s.epoch.Load() {
		s.age(epoch)
	}
	if a.Low != b.Low {
		return b.Low
	}
	u, v := &s.byUser[a.User%users], &s.byUser[b.User%users]
	if u != v {
		return u.total.Load() < v.total.Load()
	}
	return u.had[a.Connection%connections].Load() < v.had[b.Connection%connections].Load()
}

// age halves the recorded use for each half-life that has passed.
func (s *Shares) age(epoch int64) {
	if !s.aging.TryLock() {
		return // another goroutine ages the figures
	}
	defer s.aging.Unlock()
	by := min(epoch-s.epoch.Load(), 62)
	if by <= 0 {
		return
	}
	s.epoch.Store(epoch)
	var total, active int64
	crowded := false
	for i := range s.byUser {
		u := &s.byUser[i]
		if u.total.Load() == 0 {
			continue
		}
		var sum, most, n int64
		for k := range u.had {
			had := u.had[k].Load() >> by
			if u.had[k].Store(had); had > 0 {
				n++
			}
			sum, most = sum+had, max(most, had)
		}
		u.total.Store(sum)
		u.most.Store(most)
		if total += sum; sum > 0 {
			active++
		}
		crowded = crowded || n > 1
	}
	s.total.Store(total)
	s.low.Store(min(s.low.Load()>>by, total))
	s.active.Store(active)
	s.crowded.Store(crowded)
}
