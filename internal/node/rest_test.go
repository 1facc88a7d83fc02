// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/rest"
	"github.com/ilion-db/ilion/test/eventually"
)

// keysOf returns the keys that a node shows to the owner of its data directory.
func keysOf(t *testing.T, n *Node) admin.Keys {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(n.opts.Data, AdminSocket))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	r, err := client.Get("http://localhost/keys")
	var k admin.Keys
	if err := json.Unmarshal([]byte(webPage(t, "/keys", r, err)), &k); err != nil {
		t.Fatal(err)
	}
	return k
}

// TestRESTKeysAreDrawnOnce checks that a node generates the keys of the REST interface at its first start and keeps
// the keys across restarts. The node must show the keys only to the owner of its data directory, and must never log
// them. A configured key must replace the generated key. Without the configured key, the generated key must apply
// again.
func TestRESTKeysAreDrawnOnce(t *testing.T) {
	var log bytes.Buffer
	o := Options{Data: filepath.Join(t.TempDir(), "data"), CQL: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		REST: options.REST{Address: "127.0.0.1:0"},
		Log:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	keys := func(o Options) admin.Keys {
		n, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		k := keysOf(t, n)
		if k.Endpoint != "http://"+n.RESTAddr().String()+"/" {
			t.Errorf("endpoint %s", k.Endpoint)
		}
		r, err := http.Get("http://" + n.HTTPAddr().String() + "/keys")
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusNotFound {
			t.Errorf("other clients receive the response %s", r.Status)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := keys(o)
	seen := map[string]bool{}
	for _, text := range []string{first.Primary, first.Secondary, first.ReadOnly} {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != rest.KeyBytes || seen[text] {
			t.Errorf("%q: %v", text, err)
		}
		seen[text] = true
		if strings.Contains(log.String(), text) {
			t.Error("the log contains a key")
		}
	}
	again := keys(o)
	if again.Primary != first.Primary || again.Secondary != first.Secondary || again.ReadOnly != first.ReadOnly {
		t.Error("the keys changed after a restart")
	}
	o.REST.PrimaryKey = rest.NewKey()
	if k := keys(o); k.Primary != o.REST.PrimaryKey || k.Secondary != first.Secondary {
		t.Error("the configured key is not used")
	}
	o.REST.PrimaryKey = ""
	if keys(o).Primary != first.Primary {
		t.Error("the drawn key is lost")
	}
}

// TestRESTKeysOfACluster checks that the nodes of a cluster have the same keys.
func TestRESTKeysOfACluster(t *testing.T) {
	surface := func(name string) Options {
		return Options{Data: filepath.Join(t.TempDir(), name), REST: options.REST{Address: "127.0.0.1:0"}}
	}
	first := clusterNode(t, nil, surface("first"))
	second := clusterNode(t, first, surface("second"))
	eventually.True(t, "both nodes to have the same keys", func() bool {
		a, b := keysOf(t, first), keysOf(t, second)
		return a.Primary != "" && a.Primary == b.Primary && a.Secondary == b.Secondary && a.ReadOnly == b.ReadOnly
	})
}

// TestRESTAddress checks a node whose default REST address is in use. The node must start without the REST interface
// and log this. If the address is configured explicitly, the node must not start.
func TestRESTAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var log bytes.Buffer
	o := Options{CQL: "127.0.0.1:0", HTTP: "off", REST: options.REST{Address: l.Addr().String(), Optional: true},
		Log: slog.New(slog.NewTextHandler(&log, nil))}
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n.RESTAddr() != nil || !strings.Contains(log.String(), "specify --rest HOST:PORT") ||
		strings.Contains(n.ReadyLine(), "REST") {
		t.Errorf("%v, %s, log %s", n.RESTAddr(), n.ReadyLine(), &log)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	o.REST.Optional = false
	if n, err := Start(t.Context(), o); err == nil {
		_ = n.Close()
		t.Error("the node starts although its address is in use")
	}
}

// TestRESTOptions checks which options of the REST interface are rejected. It also checks that the configuration file
// accepts the options.
func TestRESTOptions(t *testing.T) {
	key := rest.NewKey()
	for _, c := range []struct{ text, want string }{
		{"rest:\n  address: 127.0.0.1:9\n  primary_key: " + key, ""},
		{"rest:\n  address: \"off\"", ""},
		{"rest:\n  address: 8081", "is not host:port"},
		{"rest:\n  primary_key: c2hvcnQ=", "rest.primary_key must be 64 bytes in base64"},
		{"rest:\n  read_only_key: no base64", "rest.read_only_key must be 64 bytes in base64"},
		{"rest:\n  primary_key: " + key + "\n  read_only_key: " + key,
			"rest.primary_key and rest.read_only_key are the same"},
	} {
		path := filepath.Join(t.TempDir(), "ilion.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := Options{Data: "x"}
		err := options.Load(path, &o)
		if err == nil {
			err = o.WithDefaults().Validate()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}
