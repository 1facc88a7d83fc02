// SPDX-License-Identifier: Apache-2.0

//go:build integration

package rest

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/restclient"
)

// startWithCalls starts a node with a container d.c. The sessions of the drivers call procedures of this container. It
// returns the host and port of its CQL address.
func startWithCalls(t *testing.T) (host, port string) {
	t.Helper()
	n := startNode(t, 1)
	c := restclient.New(n.RESTAddr().String(), time.Minute)
	defer c.Close()
	for _, made := range [][2]any{
		{"dbs", map[string]string{"id": "d"}},
		{"dbs/d/colls", map[string]any{"id": "c",
			"partitionKey": map[string]any{"paths": []string{"/k"}, "kind": "Hash", "version": 2}}},
		{"dbs/d/colls/c/sprocs", map[string]string{"id": "echo", "body": `function () {
			getContext().getResponse().setBody(Array.prototype.slice.call(arguments));
		}`}},
		{"dbs/d/colls/c/sprocs", map[string]string{"id": "throws", "body": `function () { throw 'changed my mind' }`}},
	} {
		status, _, err := c.Ask(t.Context(), &restclient.Request{Method: http.MethodPost, Path: made[0].(string),
			Body: made[1]}, nil)
		if status != http.StatusCreated || err != nil {
			t.Fatalf("%s: %d %v", made[0], status, err)
		}
	}
	host, port, err := net.SplitHostPort(n.CQLAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// TestCallByPythonDriver checks that the Python driver runs stored procedures with CALL. It uses simple, prepared, and
// traced statements, and values of all forms, including null. Rejected calls must return the correct error.
func TestCallByPythonDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, "python3", "-m", "venv", dir)
	install(t, dir, filepath.Join(dir, "bin", "pip"), "install", "-q", "cassandra-driver")
	host, port := startWithCalls(t)
	run(t, dir, nil, filepath.Join(dir, "bin", "python"), filepath.Join(here(t), "call.py"), host, port)
}

// TestCallByNodeDriver repeats the checks of TestCallByPythonDriver with the Node.js driver.
func TestCallByNodeDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, "cassandra-driver")
	host, port := startWithCalls(t)
	run(t, dir, []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}, "node",
		filepath.Join(here(t), "call.js"), host, port)
}
