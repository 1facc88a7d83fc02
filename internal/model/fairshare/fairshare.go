// SPDX-License-Identifier: Apache-2.0

// Package share says who has had how much of what is scarce lately, and so who is next. It reads no clock.
//
// Guarantees: (SH1) of those who ask for more than there is each user gets an equal share, and of that each of its
// connections, whoever asks most; what one does not ask for goes to the others. (SH2) Low priority gets what normal
// priority leaves. (SH3) The memory is the same, whoever asks: users and connections are told apart by hashes, so two
// of them may share what is one's.
//
// How: somebody keeps a balance that time fills and admission empties, and lets a claimant in while as much of it is
// left as Reserve asks for. That grows with what the claimant has had, so the balance stays at a height at which
// those who have had most have to wait, and the others do not.
package fairshare

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Claimant is who asks.
type Principal struct {
	// User and Connection tell users, and connections of a user, from each other.
	User, Connection uint32
	// Low says that everybody else goes first.
	Low bool
}

// Internal is who asks for work of the database itself on the rows of a table, such as the building of an index: of low
// priority, but for its turn now and then.
var Internal = Principal{User: math.MaxUint32, Connection: math.MaxUint32, Low: true}

// IsInternal reports whether a claimant is Internal, of whichever priority.
func (c Principal) IsInternal() bool {
	c.Low = true
	return c == Internal
}

// ClaimantSize is the length of an encoded Claimant.
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

// DecodeClaimant reads what Append wrote; false if it is none. What a later build may have added is passed over.
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
	// halfLife is the time in which what somebody has had counts half as much.
	halfLife = 512 * time.Millisecond
)

// The reserves that are asked for, as parts of the largest, which is 1: that of the only user in all its connections
// is 0 to ofConnection, that of one among others up to ofUser more. Low priority begins where normal ends.
const (
	ofUser       = 1. / 3
	ofConnection = 1. / 6
	low          = ofUser + ofConnection
	// steep is by how much more than an equal share has to be waited for: an eighth of all beyond it is the most that
	// counts.
	steep = 8
)

// Shares is what claimants have had. The zero value is that nobody has had anything. It is safe for concurrent use.
type Shares struct {
	// epoch is the number of half lives at which the figures are.
	epoch atomic.Int64
	aging sync.Mutex
	// low is what low priority has had of total.
	total, low atomic.Int64
	// active counts the users that have had something, crowded is set when any has several connections that have.
	active  atomic.Int64
	crowded atomic.Bool
	byUser  [users]user
}

type user struct {
	total atomic.Int64
	// most is what the connection has had that has had most.
	most atomic.Int64
	had  [connections]atomic.Int64
}

// Took notes that a claimant has had something.
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

// Rivals reports whether anybody but the claimant has had something lately, or it has itself, with another priority.
func (s *Shares) Rivals(c Principal) bool {
	all, low := s.total.Load(), s.low.Load()
	return s.crowded.Load() || s.byUser[c.User%users].total.Load() < all || low > 0 && (!c.Low || low < all)
}

// Reserve is how much of the largest reserve has to be left for the claimant to be let in, 0 to 1. now is a time since
// anything, which does not go back.
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
	// More than an equal share of all has to be waited for. What is taken off is the same for all, so it favours none.
	need += ofUser * min(1, max(0, steep*(of/all-1/float64(max(1, s.active.Load())))))
	if s.crowded.Load() {
		// The connection that has had most pays in full, whatever the others of the user have had: users with many of
		// them are not better off.
		need += ofConnection * min(
			1,
			max(0, 1+(float64(u.had[c.Connection%connections].Load())-float64(u.most.Load()))/of),
		)
	}
	return need
}

// before reports whether a claimant has had less lately than another: its user, and of the same user its connection.
// Low priority comes last. now is as for Reserve.
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

// age halves what was had for each half life that has passed.
func (s *Shares) age(epoch int64) {
	if !s.aging.TryLock() {
		return // somebody does it
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
