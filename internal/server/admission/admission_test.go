// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// wait is the queue delay above which requests are rejected.
const wait = 50 * time.Millisecond

// refusal is the cost of the rejection of a request, as a fraction of the cost of its execution.
const refusal = 0.05

// possible returns the maximum fraction of the machine's capacity that remains for requests. The clients send times as
// many requests as the machine can execute.
func possible(times float64) float64 { return (1 - refusal*times) / (1 - refusal) }

// machine simulates, in virtual time, a machine that executes a number of requests per second sequentially.
type machine struct {
	*Gate
	perSecond float64
	// pending means that requests are admitted when they arrive and count as in flight while they wait. Writes behave
	// in this way. Otherwise, requests wait in their connections until the machine reads them.
	pending bool
	now     time.Duration
	queue   []time.Duration // arrival times of waiting requests
	room    float64
	done    int64
	waits   []time.Duration // delays of completed requests
	refused int
	waited  time.Duration
	seen    int
	rng     *rand.Rand
}

func newMachine(perSecond float64, pending bool) *machine {
	return &machine{Gate: New(wait, 1), perSecond: perSecond, pending: pending, rng: rand.New(rand.NewPCG(1, 1))}
}

// run resets the measurements and then sends requests at the given rate for some time.
func (m *machine) run(perSecond float64, d time.Duration, who func() fairshare.Principal) {
	m.waits, m.refused = nil, 0
	const step = time.Millisecond
	due := 0.
	for end := m.now + d; m.now < end; {
		m.now += step
		m.room += m.perSecond * step.Seconds()
		for due += perSecond * step.Seconds() * 2 * m.rng.Float64(); due >= 1; due-- {
			if !m.pending || m.let(who, m.now) {
				m.queue = append(m.queue, m.now)
			}
		}
		for len(m.queue) > 0 && m.room >= 1 {
			came := m.queue[0]
			m.queue = m.queue[1:]
			if !m.pending && !m.let(who, came) {
				continue
			}
			m.room--
			m.done++
			m.waits = append(m.waits, m.now-came)
		}
		if len(m.queue) == 0 {
			m.room = min(m.room, 0)
		}
		if m.now%SampleEvery == 0 {
			m.sample()
		}
	}
}

// let asks the gate whether to admit a request.
func (m *machine) let(who func() fairshare.Principal, came time.Duration) bool {
	m.waited, m.seen = m.waited+m.now-came, m.seen+1
	if !m.Closed() || m.Admit(who(), 5*ru.Unit, m.now-came, m.now) {
		return true
	}
	m.refused++
	m.room -= refusal
	return false
}

func (m *machine) sample() {
	s := Sample{Now: m.now, Done: m.done}
	if m.pending {
		s.UnderWay = int64(len(m.queue))
	} else if m.seen > 0 {
		s.Waited = m.waited / time.Duration(m.seen)
	}
	m.waited, m.seen = 0, 0
	m.Sample(s)
}

func somebody() fairshare.Principal { return fairshare.Principal{} }

// TestOverload checks overload with up to ten times as many requests as the machine can execute (GA2). The machine
// must complete at least 95% of the requests that it can execute in addition to the rejections. The delay of the
// completed requests must stay below three times the limit. When the load decreases, the gate must open, and no
// request may be rejected. The test covers requests in flight and requests that wait in their connections.
func TestOverload(t *testing.T) {
	for _, pending := range []bool{false, true} {
		for _, does := range []float64{20_000, 80_000} {
			for _, times := range []float64{1.3, 3, 10} {
				m := newMachine(does, pending)
				m.run(does*0.8, 2*time.Second, somebody)
				if m.refused > 0 || m.Closed() {
					t.Errorf("pending %v, %v/s: %d rejected below the capacity", pending, does, m.refused)
				}
				m.run(does*times, 3*time.Second, somebody)
				m.run(does*times, 5*time.Second, somebody)
				slices.Sort(m.waits)
				good, p99 := float64(len(m.waits))/5, m.waits[len(m.waits)*99/100]
				if good < 0.95*possible(times)*does || p99 > 4*wait || p99 > 3*wait && times < 10 {
					t.Errorf("pending %v, %v/s, %v times: %.0f/s done of %.0f, p99 of the waits %v", pending, does,
						times, good, possible(times)*does, p99)
				}
				m.run(does*0.8, 4*time.Second, somebody)
				m.run(does*0.8, time.Second, somebody)
				if m.refused > 0 || m.Closed() {
					t.Errorf("pending %v, %v/s: %d rejected after the overload; closed: %v", pending, does, m.refused,
						m.Closed())
				}
			}
		}
	}
}

// TestOldIsRefusedFirst checks that requests that have waited for a long time are admitted at a lower rate than
// requests that have just arrived.
func TestOldIsRefusedFirst(t *testing.T) {
	m := newMachine(20_000, false)
	m.run(60_000, 3*time.Second, somebody)
	var in [2]int
	for i := range 20_000 {
		if m.Admit(somebody(), ru.Unit, time.Duration(i%2)*3*wait, m.now) {
			in[i%2]++
		}
	}
	if in[0] < 2000 || in[1] > in[0]/2 {
		t.Errorf("%d of 10000 that have just come, %d of 10000 old ones", in[0], in[1])
	}
}

// TestCapacityChanges checks that the gate adapts to a machine that becomes slower or faster while the gate is closed.
func TestCapacityChanges(t *testing.T) {
	m := newMachine(20_000, true)
	m.run(60_000, 3*time.Second, somebody)
	for _, does := range []float64{5_000, 20_000} {
		m.perSecond = does
		m.run(60_000, 6*time.Second, somebody)
		m.run(60_000, 4*time.Second, somebody)
		if good := float64(len(m.waits)) / 4; good < 0.9*possible(60_000/does)*does {
			t.Errorf("%.0f/s done of %v", good, does)
		}
	}
}

// TestFewNeverWait checks that the gate stays open for a few slow requests (GA1). The machine is slow or waits for a
// disk. The gate must also stay open for a short burst, and for many requests whose service time is the same as under
// light load.
func TestFewNeverWait(t *testing.T) {
	m := newMachine(20, true)
	m.run(30, 4*time.Second, somebody) // at the end, 40 requests wait for 2 s
	if m.refused > 0 || m.Closed() {
		t.Errorf("%d of a few slow requests rejected", m.refused)
	}
	g := New(wait, 1)
	s := Sample{}
	for i := range 200 { // each request to another region takes 300 ms; 60 and later 900 are in flight
		s.Now += SampleEvery
		s.UnderWay = 60
		if i > 100 {
			s.UnderWay = 900
		}
		s.Done += int64(float64(s.UnderWay) / 0.3 * SampleEvery.Seconds())
		g.Sample(s)
	}
	if g.Closed() {
		t.Error("requests that take long without load are rejected")
	}
	idle := New(wait, 1)
	s = Sample{}
	for i := range 200 { // other processes use the processors: up to one request per second completes
		s.Now, s.Waited = s.Now+5*SampleEvery, 5*wait
		if i%10 == 9 {
			s.Done++
		}
		if idle.Sample(s); idle.Closed() {
			t.Fatalf("an almost idle machine rejects requests after %v", s.Now)
		}
	}
	m = newMachine(50_000, false)
	m.run(90_000, closeAfter/2, somebody)
	m.run(10_000, 2*time.Second, somebody)
	if m.refused > 0 {
		t.Errorf("%d of a burst rejected", m.refused)
	}
	off := New(0, 1)
	for range 100 {
		s.Now, s.UnderWay = s.Now+SampleEvery, 1e6
		off.Sample(s)
	}
	if off.Closed() {
		t.Error("a gate without a bound is closed")
	}
}

// TestSharesOfMachine checks how capacity is shared under overload (GA3). A user that sends ten times as many requests
// as another user must get no more capacity. Requests with low priority must get no capacity while requests with
// normal priority use all of it.
func TestSharesOfMachine(t *testing.T) {
	m := newMachine(20_000, true)
	got, rng := map[fairshare.Principal]int{}, rand.New(rand.NewPCG(3, 4))
	loud, quiet := fairshare.Principal{User: 1}, fairshare.Principal{User: 2}
	low := fairshare.Principal{User: 3, Low: true}
	who := func() fairshare.Principal {
		switch n := rng.IntN(20); {
		case n == 0:
			return low
		case n < 4:
			return quiet // 15 % of the requests, or 9,000/s, are less than half of the capacity
		}
		return loud
	}
	m.run(60_000, 3*time.Second, who)
	before := m.done
	for range 3000 {
		m.now += time.Millisecond
		for range 60 {
			if c := who(); m.Admit(c, 5*ru.Unit, 0, m.now) {
				got[c]++
			}
		}
		m.done += 20
		if m.now%SampleEvery == 0 {
			m.Sample(Sample{Now: m.now, Done: m.done, UnderWay: 800})
		}
	}
	all := float64(m.done - before)
	if float64(got[quiet]) < 0.42*all || float64(got[low]) > 0.02*all {
		t.Errorf("of %.0f the loud one got %d, the quiet one %d of %.0f asked for, low %d", all, got[loud], got[quiet],
			all*0.45, got[low])
	}
	if st := m.Stats(); st.RefusedLow == 0 || st.Refused <= st.RefusedLow {
		t.Errorf("%+v", st)
	}
}

func BenchmarkRefuse(b *testing.B) {
	g := New(wait, 1)
	g.close()
	b.ReportAllocs()
	for b.Loop() {
		g.Admit(fairshare.Principal{User: 1, Connection: 2}, ru.Unit, 0, time.Second)
	}
}
