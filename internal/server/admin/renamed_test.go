// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestFormerNamesOfMetrics checks that a renamed metric is also exported under its former name and in its former unit.
// An unknown value must stay unknown.
func TestFormerNamesOfMetrics(t *testing.T) {
	for _, c := range []struct{ free, former float64 }{{0.25, 25}, {-1, -1}} {
		reg := prometheus.NewRegistry()
		free := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ilion_store_disk_free_ratio", Help: "Free."})
		free.Set(c.free)
		applied := prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ilion_view_updates_applied_total", Help: "Applied."})
		applied.Add(3)
		reg.MustRegister(free, applied)
		families, err := withFormerNames(reg).Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		want := map[string]float64{"ilion_store_disk_free_ratio": c.free, "ilion_store_disk_free_percent": c.former,
			"ilion_view_updates_applied_total": 3, "ilion_view_rows_followed_total": 3}
		if len(values) != len(want) {
			t.Errorf("metrics %v, want %v", values, want)
		}
		for name, v := range want {
			if values[name] != v {
				t.Errorf("%s is %v, want %v", name, values[name], v)
			}
		}
	}
}
