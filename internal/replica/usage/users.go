// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// usersMax bounds the users that a node tells apart; the requests of others are those of OtherUsers.
	usersMax = 1024
	// UsersMost is how many users are told of.
	UsersMost = 100
	// userFor is after how long without requests and connections a user is forgotten.
	userFor = time.Hour
	// OtherUsers stands for the users beyond those that are told apart.
	OtherUsers = "(others)"
)

// User is what a user has asked of one node, or of all together: a role, or an address where nobody has to log in.
type User struct {
	Name string `json:"name"`
	// Units are request units, since the node was started, or the user first seen since; Refused are the requests that
	// were refused as too many.
	Units    float64 `json:"request_units_total"`
	Requests uint64  `json:"requests_total"`
	Refused  uint64  `json:"throttled_total"`
	// PerSecond and those below are means of the last ten seconds.
	PerSecond         float64 `json:"ru_per_second"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	RefusedPerSecond  float64 `json:"throttled_per_second"`
}

// MergeUsers adds up what several nodes tell, the user that takes most first.
func MergeUsers(lists ...[]User) []User {
	at := map[string]int{}
	out := []User{}
	for _, list := range lists {
		for _, u := range list {
			i, known := at[u.Name]
			if !known {
				at[u.Name] = len(out)
				out = append(out, u)
				continue
			}
			o := &out[i]
			o.Units, o.Requests, o.Refused = o.Units+u.Units, o.Requests+u.Requests, o.Refused+u.Refused
			o.PerSecond += u.PerSecond
			o.RequestsPerSecond += u.RequestsPerSecond
			o.RefusedPerSecond += u.RefusedPerSecond
		}
	}
	slices.SortFunc(out, func(a, b User) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(b.Units, a.Units), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), UsersMost)]
}

// Users counts what users ask of a node. The zero value is ready for use, also concurrently.
type Users struct {
	mu sync.Mutex
	of map[string]*Asker
	// ticks are the last moments at which the counts of all were noted.
	ticks [lately + 1]time.Duration
	n     int
}

// Asker counts what one user asks.
type Asker struct {
	units             atomic.Int64
	requests, refused atomic.Uint64
	// Users.mu guards the rest: connections is how many the user has, idle since when nothing was asked, and past what
	// was counted at Users.ticks.
	connections int
	idle        time.Duration
	past        [lately + 1]asked
}

type asked struct {
	units             ru.Units
	requests, refused uint64
}

// Add counts requests that were answered, what they have cost, and how many of them were refused as too many.
func (a *Asker) Add(requests, refused uint64, units ru.Units) {
	a.requests.Add(requests)
	if units > 0 {
		a.units.Add(int64(units))
	}
	if refused > 0 {
		a.refused.Add(refused)
	}
}

func (a *Asker) now() asked {
	return asked{ru.Units(a.units.Load()), a.requests.Load(), a.refused.Load()}
}

// Enter is called for a new connection of a user, and Leave when it has ended.
func (u *Users) Enter(name string) *Asker {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]*Asker{}
	}
	if u.of[name] == nil && len(u.of) >= usersMax {
		name = OtherUsers
	}
	a := u.of[name]
	if a == nil {
		a = &Asker{}
		u.of[name] = a
	}
	a.connections++
	return a
}

// Leave is the end of a connection.
func (u *Users) Leave(a *Asker) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a.connections--
}

// Tick notes what was asked until now, a time since some moment. It is to be called about once a second; calls within
// a second of the last one do nothing.
func (u *Users) Tick(now time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n > 0 && now-u.ticks[(u.n-1)%len(u.ticks)] < time.Second {
		return
	}
	slot := u.n % len(u.ticks)
	u.ticks[slot] = now
	for name, a := range u.of {
		last, next := a.past[(slot+len(u.ticks)-1)%len(u.ticks)], a.now()
		if a.past[slot] = next; next != last || a.connections > 0 {
			a.idle = now
		} else if now-a.idle > userFor {
			delete(u.of, name)
		}
	}
	u.n++
}

// List tells what was asked, by the user that takes most first.
func (u *Users) List() []User {
	u.mu.Lock()
	defer u.mu.Unlock()
	newest := (u.n - 1 + len(u.ticks)) % len(u.ticks)
	oldest := 0
	if u.n >= len(u.ticks) {
		oldest = u.n % len(u.ticks)
	}
	passed := (u.ticks[newest] - u.ticks[oldest]).Seconds()
	list := make([]User, 0, len(u.of))
	for name, a := range u.of {
		now := a.now()
		out := User{Name: name, Units: now.units.Float(), Requests: now.requests, Refused: now.refused}
		if u.n > 1 && passed > 0 {
			from, to := a.past[oldest], a.past[newest]
			out.PerSecond = (to.units - from.units).Float() / passed
			out.RequestsPerSecond = float64(to.requests-from.requests) / passed
			out.RefusedPerSecond = float64(to.refused-from.refused) / passed
		}
		list = append(list, out)
	}
	return MergeUsers(list)
}
