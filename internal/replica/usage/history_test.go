// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// TestHistory checks the values kept by second and by minute, including peaks, rejections, and the utilization of a
// throughput. A clock that moves back must lose nothing, and a partition that is idle for an hour must keep nothing.
func TestHistory(t *testing.T) {
	p, throttled, now := new(Partition), uint64(0), int64(noon)
	spend := func(requests int) {
		for range requests {
			p.RecordWrite(Write, 7, 5*ru.Unit, 100)
		}
		now++
		p.Tick(now, Bounds{PerSecond: 1000, Throttled: throttled})
	}
	p.Tick(now, Bounds{PerSecond: 1000})
	for range 60 {
		spend(100)
	}
	throttled = 30
	spend(200)
	now -= 10
	spend(50) // nothing is recorded until the clock reaches its previous time
	now += 10
	spend(0)
	minutes := p.Minutes()
	if len(minutes) != 2 {
		t.Fatalf("%d minutes", len(minutes))
	}
	first, second := &minutes[0], &minutes[1]
	if first.At != noon || first.Units != 30_000*ru.Unit || first.Requests != 6000 || first.Bytes != 600_000 ||
		first.Utilization() != 0.5 || first.Peak != 500*ru.Unit || first.Throttled != 0 || len(first.Keys) != 1 ||
		first.Keys[0].Units != first.Units {
		t.Errorf("the first minute: %+v", first)
	}
	if second.At != noon+60 || second.Units != 1250*ru.Unit || second.Throttled != 30 || second.Peak != 1000*ru.Unit {
		t.Errorf("the second minute: %+v", second)
	}
	for range SecondsMax {
		spend(1)
	}
	seconds := p.Seconds()
	if last := seconds[len(seconds)-1]; len(seconds) != SecondsMax || last.At != now-1 || last.Requests != 1 ||
		last.Given != 1000 {
		t.Errorf("%d seconds, the last %+v", len(seconds), last)
	}
	for range 3600 + 120 {
		spend(0)
	}
	if !p.idle() || len(p.Minutes()) != 0 || len(p.Seconds()) != 0 {
		t.Errorf("after an hour of nothing there are %d minutes, %d seconds", len(p.Minutes()), len(p.Seconds()))
	}
	spend(3)
	if s := p.Seconds(); len(s) != 1 || s[0].Requests != 3 {
		t.Errorf("counting starts again: %+v", s)
	}
}
