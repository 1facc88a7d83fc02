// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// FuzzHandler checks that no request causes a panic. A request without the password must not be able to run a command
// or read the status.
func FuzzHandler(f *testing.F) {
	for _, head := range []string{
		"GET /status HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /checkpoint HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"POST /node/decommission?node=abcd HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YTpi\r\n\r\n",
		"POST //compact HTTP/1.0\r\n\r\n", "POST /x/../upgrade HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
		"GET http://b/debug/pprof/trace?seconds=x HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /metrics/ HTTP/1.1\r\nHost:\r\n\r\n",
		"HEAD /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "PUT /%63ompact HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		f.Add(head, "127.0.0.1:9")
		f.Add(head, "192.0.2.1:9")
	}
	node := new(fakeNode)
	o := Options{Health: node, Metrics: prometheus.NewRegistry(), Reports: node, Maintenance: node, Nodes: node,
		Profile: true}
	h := Handler(o, &Gate{Login: func(_ context.Context, _ netip.Addr, _, password string) (*access.Subject, error) {
		return nil, &dberr.BadCredentials{Message: "wrong"}
	}})
	f.Fuzz(func(t *testing.T, text, from string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		node.reached, r.RemoteAddr = nil, from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if len(node.reached) > 0 {
			t.Fatalf("%q reached %s without a password", text, node.reached)
		}
		if path := strings.Trim(r.URL.Path, "/"); w.Code == http.StatusOK && path != "healthz" && path != "readyz" {
			t.Fatalf("request %q: got 200", text)
		}
	})
}
