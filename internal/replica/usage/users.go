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
	// usersMax is the maximum number of users that a node distinguishes. Requests of all other users are counted for
	// OtherUsers.
	usersMax = 1024
	// UsersMax is the maximum number of reported users.
	UsersMax = 100
	// userFor is the time without requests and connections after which a user's counters are removed.
	userFor = time.Hour
	// OtherUsers is the name that represents all users above the limit.
	OtherUsers = "(others)"
)

// User holds the request counts of a user on one node or on all nodes together. A user is a role, or an address if no
// login is required.
type User struct {
	Name string `json:"name"`
	// Units is the number of request units since the counters of the user were created. Refused is the number of
	// requests that were rejected because they exceeded a limit.
	Units    float64 `json:"request_units_total"`
	Requests uint64  `json:"requests_total"`
	Refused  uint64  `json:"throttled_total"`
	// PerSecond and the following fields are mean values of the last ten seconds.
	PerSecond         float64 `json:"ru_per_second"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	RefusedPerSecond  float64 `json:"throttled_per_second"`
}

// MergeUsers adds up the users of several nodes and sorts them by load in descending order.
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
	return out[:min(len(out), UsersMax)]
}

// Users counts the requests of the users of a node. The zero value is ready for use. It is safe for concurrent use.
type Users struct {
	mu sync.Mutex
	of map[string]*UserCounter
	// ticks holds the times at which the counts of all users were last recorded.
	ticks [recentSeconds + 1]time.Duration
	n     int
}

// UserCounter counts the requests of one user.
type UserCounter struct {
	units             atomic.Int64
	requests, refused atomic.Uint64
	// Users.mu guards the following fields. connections is the number of open connections. idle is the time since which
	// the user has sent no requests. past holds the counts at the times in Users.ticks.
	connections int
	idle        time.Duration
	past        [recentSeconds + 1]userTotals
}

type userTotals struct {
	units             ru.Units
	requests, refused uint64
}

// Add counts processed requests, rejected requests, and the cost of requests.
func (a *UserCounter) Add(requests, refused uint64, units ru.Units) {
	a.requests.Add(requests)
	if units > 0 {
		a.units.Add(int64(units))
	}
	if refused > 0 {
		a.refused.Add(refused)
	}
}

func (a *UserCounter) totals() userTotals {
	return userTotals{ru.Units(a.units.Load()), a.requests.Load(), a.refused.Load()}
}

// Connect registers a new connection of a user. The caller must call Disconnect when the connection ends.
func (u *Users) Connect(name string) *UserCounter {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]*UserCounter{}
	}
	if u.of[name] == nil && len(u.of) >= usersMax {
		name = OtherUsers
	}
	a := u.of[name]
	if a == nil {
		a = &UserCounter{}
		u.of[name] = a
	}
	a.connections++
	return a
}

// Disconnect unregisters a connection.
func (u *Users) Disconnect(a *UserCounter) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a.connections--
}

// Tick records the counts at the time now. It must be called about once per second. It ignores a call within a second
// of the last recorded call.
func (u *Users) Tick(now time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n > 0 && now-u.ticks[(u.n-1)%len(u.ticks)] < time.Second {
		return
	}
	slot := u.n % len(u.ticks)
	u.ticks[slot] = now
	for name, a := range u.of {
		last, next := a.past[(slot+len(u.ticks)-1)%len(u.ticks)], a.totals()
		if a.past[slot] = next; next != last || a.connections > 0 {
			a.idle = now
		} else if now-a.idle > userFor {
			delete(u.of, name)
		}
	}
	u.n++
}

// List returns the users in descending order of load.
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
		now := a.totals()
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
