// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/control/regions"
)

// fakeRegions records the executed operations.
type fakeRegions struct{ done []string }

func (f *fakeRegions) Add(_ context.Context, name string) (string, error) {
	f.done = append(f.done, "add "+name)
	return "added", nil
}

func (f *fakeRegions) Remove(_ context.Context, name string) (string, error) {
	f.done = append(f.done, "remove "+name)
	return "removed", nil
}

func (f *fakeRegions) List() ([]regions.Region, error) {
	return []regions.Region{{Name: "us", Home: true, Nodes: 3}}, nil
}

// TestRegionEndpoints checks the endpoints for regions. A standalone node must explain why it has no regions.
func TestRegionEndpoints(t *testing.T) {
	const standalone = "start it with --bootstrap before you add a region"
	f := new(fakeRegions)
	for _, c := range []struct {
		regions      RegionOperations
		method, path string
		code         int
		want         string
	}{
		{f, http.MethodPost, "/region/add?region=eu", 200, "added"},
		{f, http.MethodPost, "/region/remove?region=eu", 200, "removed"},
		{f, http.MethodGet, "/regions", 200, `"name": "us"`},
		{nil, http.MethodPost, "/region/add?region=eu", 0, standalone},
		{nil, http.MethodPost, "/region/remove?region=eu", 0, standalone},
		{nil, http.MethodGet, "/regions", 0, standalone},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Host = "localhost"
		Handler(Options{Metrics: prometheus.NewRegistry(), Regions: c.regions}, nil).ServeHTTP(w, r)
		if (c.code == 200) != (w.Code == 200) || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
	if got := strings.Join(f.done, ", "); got != "add eu, remove eu" {
		t.Errorf("executed: %s", got)
	}
}
