// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// demand is a principal with its number of requests per millisecond and their price.
type demand struct {
	Principal
	perMS float64
	price int64
}

// divide runs the demands for ten seconds. The supply is one unit per microsecond, and the reserve is 40 ms. divide
// returns the fraction of the supply that each demand received during the last eight seconds.
func divide(t *testing.T, demands []demand) []float64 {
	t.Helper()
	const reserve, most = 40_000., 60_000.
	var s Shares
	rng := rand.New(rand.NewPCG(1, 2))
	balance := most
	got := make([]float64, len(demands))
	for ms := range 10_000 {
		balance = min(most, balance+1000)
		var asks []int
		for i := range demands {
			n := int(demands[i].perMS)
			if rng.Float64() < demands[i].perMS-float64(n) {
				n++
			}
			for range n {
				asks = append(asks, i)
			}
		}
		rng.Shuffle(len(asks), func(i, k int) { asks[i], asks[k] = asks[k], asks[i] })
		for _, i := range asks {
			d := &demands[i]
			if balance <= reserve*s.Reserve(d.Principal, time.Duration(ms)*time.Millisecond) {
				continue
			}
			balance -= float64(d.price)
			s.Took(d.Principal, d.price)
			if ms >= 2000 {
				got[i] += float64(d.price) / 8e6
			}
		}
	}
	return got
}

func same(t *testing.T, what string, got, want []float64, slack float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > slack {
			t.Errorf("%s: the fractions are %.3f, want %.3f", what, got, want)
			return
		}
	}
}

// TestUsers checks how a resource is divided among users (SH1). The most demanding user must get no more than other
// users whose demand is at least their share. A user whose demand is less than its share must get all that it
// requests. The rest must be divided evenly. Neither the price of a request nor the number of a user's connections may
// matter.
func TestUsers(t *testing.T) {
	u := func(user uint32, perMS float64, price int64) demand {
		return demand{Principal{User: user, Connection: user}, perMS, price}
	}
	for _, c := range []struct {
		what    string
		demands []demand
		want    []float64
	}{
		{"one alone", []demand{u(1, 100, 100)}, []float64{1}},
		{"a hundred times as much", []demand{u(1, 500, 100), u(2, 5.5, 100)}, []float64{0.5, 0.5}},
		{"one asks for a twentieth", []demand{u(1, 500, 100), u(2, 30, 100), u(3, 0.5, 100)},
			[]float64{0.475, 0.475, 0.05}},
		{"dear and cheap", []demand{u(1, 50, 2000), u(2, 100, 50)}, []float64{0.5, 0.5}},
		{"three unequal", []demand{u(1, 500, 100), u(2, 50, 100), u(3, 5, 100)}, []float64{1. / 3, 1. / 3, 1. / 3}},
	} {
		same(t, c.what, divide(t, c.demands), c.want, 0.03)
	}
	many := []demand{u(1, 20, 100)}
	for i := range uint32(10) {
		many = append(many, demand{Principal{User: 2, Connection: i}, 20, 100})
	}
	if got := divide(t, many); math.Abs(got[0]-0.5) > 0.04 {
		t.Errorf("a user with one connection competing with a user with ten gets %.3f", got[0])
	}
}

// TestConnections checks how a resource is divided among the connections of a user (SH1). A connection with thousands
// of requests must not starve the other connections.
func TestConnections(t *testing.T) {
	demands := []demand{{Principal{User: 7, Connection: 0}, 1000, 100}}
	want := []float64{0.7}
	for i := range uint32(6) {
		demands = append(demands, demand{Principal{User: 7, Connection: i + 1}, 0.5, 100})
		want = append(want, 0.05)
	}
	same(t, "a loud connection and six quiet ones", divide(t, demands), want, 0.03)
	demands = []demand{{Principal{User: 7, Connection: 0}, 1000, 100}, {Principal{User: 7, Connection: 1}, 20, 100}}
	same(t, "two that both want more than half", divide(t, demands), []float64{0.5, 0.5}, 0.04)
}

// TestLow checks requests with low priority (SH2). These requests get nothing while requests with normal priority use
// the whole supply. Otherwise, they get the remaining supply.
func TestLow(t *testing.T) {
	d := func(conn uint32, low bool, perMS float64) demand {
		return demand{Principal{User: 1, Connection: conn, Low: low}, perMS, 100}
	}
	same(t, "too much of normal", divide(t, []demand{d(1, false, 50), d(2, true, 50)}), []float64{1, 0}, 0.02)
	same(t, "six tenths of normal", divide(t, []demand{d(1, false, 6), d(2, true, 50)}), []float64{0.6, 0.4}, 0.02)
	same(t, "low alone", divide(t, []demand{d(2, true, 50)}), []float64{1}, 0.02)
}

// TestForgets checks that past use loses its effect after several half-lives.
func TestForgets(t *testing.T) {
	var s Shares
	for i := range uint32(200) {
		s.Took(Principal{User: i, Connection: i}, 1<<40)
	}
	s.Took(Principal{User: 1, Connection: 1}, 1<<50)
	if s.Reserve(Principal{User: 1, Connection: 1}, 0) < 0.3 {
		t.Error("the principal with the highest use need not wait")
	}
	if got := s.Reserve(Principal{User: 1, Connection: 1}, time.Minute); got != 0 {
		t.Errorf("the reserve after a minute is %v", got)
	}
}

func BenchmarkReserve(b *testing.B) {
	var s Shares
	b.ReportAllocs()
	for i := uint32(0); b.Loop(); i++ {
		c := Principal{User: i, Connection: i >> 8}
		if s.Reserve(c, time.Duration(i)) > 1 {
			b.Fatal(fmt.Sprint(c))
		}
		s.Took(c, 5)
	}
}
