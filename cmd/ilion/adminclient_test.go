// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ilion-db/ilion/internal/server/admin"
)

// TestAskedOnce checks that a command uses the admin socket of a node after the node has rejected a request and
// returned the path of the socket. The node logs every rejection, so only the first request may be rejected.
func TestAskedOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("orders of the owner come through a Unix socket")
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err) // the path is too long for a socket
	}
	own := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path)
	})}
	go func() { _ = own.Serve(l) }()
	defer own.Close()
	refused := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused++
		w.Header().Set(admin.SocketHeader, socket)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer s.Close()
	d := &adminClient{HTTP: s.URL}
	for _, path := range []string{"/a", "/b", "/c"} {
		if body, err := d.request(http.MethodPost, path); err != nil || string(body) != path {
			t.Errorf("%s: %q, %v", path, body, err)
		}
	}
	if refused != 1 {
		t.Errorf("the node rejected %d requests, want 1", refused)
	}
}
