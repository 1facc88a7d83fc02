// SPDX-License-Identifier: Apache-2.0

// Package testnode runs one node (One) or the nodes of a cluster (Start) inside the process of a test. Nodes
// communicate over loopback and keep their data in memory. If a node must restart with its data, the nodes keep their
// data in directories instead.
//
// Start returns a settled cluster, in which every node knows every other node. Every replica set has a leader and the
// required number of voters. The package uses only the public interfaces of the nodes (CQL and /status). Start reading
// at Start. To kill processes, use test/cluster.
package testnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

const (
	// settleTime is the maximum time that a cluster needs to settle.
	settleTime = 2 * time.Minute
	// memoryEach is the memory limit of a node. It is low because many nodes share the machine with the test.
	memoryEach = 256 << 20
	// replicas is the size of a replica set in a cluster with enough nodes. smallSet is the size in a cluster of three
	// nodes.
	replicas, smallSet = 4, 3
)

// Options describes a cluster. The zero value describes a cluster of four nodes in memory.
type Options struct {
	// Nodes is the number of nodes. The value 0 means 4.
	Nodes int
	// Dir, if set, is the directory that contains the nodes' data directories. A node in memory cannot be restarted.
	Dir string
	// Change, if set, changes the options of node i before it starts.
	Change func(i int, o *options.Options)
}

// Cluster is a running cluster. Its methods are not safe for concurrent use unless noted otherwise.
type Cluster struct {
	t     testing.TB
	o     Options
	nodes []*node.Node // nil for a stopped node
	// cql and internal hold the addresses of the nodes, which do not change after a restart. Other nodes can join
	// through the internal addresses.
	cql, internal []string
	secret        string // file with the join secret
	http          *http.Client
}

// Start starts a cluster and returns when it is settled. The cluster stops at the end of the test, which fails if a
// node does not stop cleanly.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Nodes == 0 {
		o.Nodes = 4
	}
	c := &Cluster{t: t, o: o, nodes: make([]*node.Node, o.Nodes), cql: make([]string, o.Nodes),
		internal: make([]string, o.Nodes), http: &http.Client{Timeout: 5 * time.Second}}
	t.Cleanup(c.close)
	c.secret = filepath.Join(t.TempDir(), "join-secret")
	c.start(0)
	// The other nodes join concurrently. The node that admits the other nodes determines their order.
	var wg sync.WaitGroup
	for i := 1; i < o.Nodes; i++ {
		wg.Go(func() { c.start(i) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	c.Settle()
	return c
}

// start starts node i, for the first time or again.
func (c *Cluster) start(i int) {
	o := options.Options{
		UserFunctions: true,
		CQL:           "127.0.0.1:0", HTTP: "127.0.0.1:0", Zone: fmt.Sprintf("rack%d", i+1),
		Memory:  options.Memory{Budget: memoryEach},
		Cluster: options.Cluster{Internal: "127.0.0.1:0", Bootstrap: i == 0, JoinSecretFile: c.secret},
	}
	if c.o.Dir != "" {
		o.Data = filepath.Join(c.o.Dir, fmt.Sprintf("node%d", i+1))
	}
	if i > 0 {
		o.Cluster.Join = []string{c.internal[0]}
	}
	if c.cql[i] != "" {
		o.CQL, o.Cluster.Internal = c.cql[i], c.internal[i]
	}
	if c.o.Change != nil {
		c.o.Change(i, &o)
	}
	o.Auth.AnonymousEndpoints = []string{"metrics", "status"} // the cluster reads these endpoints without a role
	ctx, cancel := context.WithTimeout(c.t.Context(), settleTime)
	defer cancel()
	n, err := node.Start(ctx, o)
	if err != nil {
		c.t.Errorf("node %d: %v", i, err)
		return
	}
	c.nodes[i], c.cql[i] = n, n.CQLAddr().String()
	if c.internal[i] != "" {
		return
	}
	s, err := c.status(i)
	if err != nil {
		c.t.Errorf("node %d: %v", i, err)
		return
	}
	for _, other := range s.Nodes {
		if other.ID == s.Node {
			c.internal[i] = other.Internal
		}
	}
}

// Stop stops node i in the same way as SIGTERM.
func (c *Cluster) Stop(i int) {
	c.t.Helper()
	n := c.nodes[i]
	c.nodes[i] = nil
	if err := n.Close(); err != nil {
		c.t.Errorf("stop node %d: %v", i, err)
	}
}

// Restart starts node i, which was stopped, at its old addresses. Restart requires Options.Dir.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	if c.start(i); c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *Cluster) close() {
	// Stop the first node last. The order has no other meaning.
	for i := len(c.nodes) - 1; i >= 0; i-- {
		if c.nodes[i] != nil {
			c.Stop(i)
		}
	}
	c.http.CloseIdleConnections()
}

// Len returns the number of nodes, including stopped nodes.
func (c *Cluster) Len() int { return len(c.nodes) }

// CQL returns the client address of node i.
func (c *Cluster) CQL(i int) string { return c.cql[i] }

// REST returns the address of the REST API of node i.
func (c *Cluster) REST(i int) string { return c.nodes[i].RESTAddr().String() }

// Addrs returns the client addresses of all nodes.
func (c *Cluster) Addrs() []string { return append([]string(nil), c.cql...) }

// Webs returns the HTTP addresses of the running nodes. They accept administrative requests from the same machine.
func (c *Cluster) Webs() []string {
	var out []string
	for _, n := range c.nodes {
		if n != nil {
			out = append(out, n.HTTPAddr().String())
		}
	}
	return out
}

// Dial connects a client to node i. The connection is closed at the end of the test.
func (c *Cluster) Dial(i int) *rawclient.Conn {
	c.t.Helper()
	conn, err := rawclient.Dial(c.t.Context(), c.cql[i], rawclient.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

// Do runs statements on node i, which must succeed.
func (c *Cluster) Do(i int, statements ...string) {
	c.t.Helper()
	conn, err := rawclient.Dial(c.t.Context(), c.cql[i], rawclient.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	for _, s := range statements {
		if _, err := conn.Query(s); err != nil {
			var e *cqlwire.Error
			if errors.As(err, &e) {
				c.t.Fatalf("node %d: %s: 0x%04x %s", i, s, int(e.Code), e.Message)
			}
			c.t.Fatalf("node %d: %s: %v", i, s, err)
		}
	}
}

// Status returns the status of the cluster according to node i. Status is safe for concurrent use.
func (c *Cluster) Status(i int) *admin.Status {
	c.t.Helper()
	s, err := c.status(i)
	if err != nil {
		c.t.Fatalf("status of node %d: %v", i, err)
	}
	return s
}

func (c *Cluster) status(i int) (*admin.Status, error) {
	b, err := c.get(i, "/status")
	if err != nil {
		return nil, err
	}
	s := new(admin.Status)
	return s, json.Unmarshal(b, s)
}

// get fetches a page of node i.
func (c *Cluster) get(i int, path string) ([]byte, error) {
	r, err := c.http.Get("http://" + c.nodes[i].HTTPAddr().String() + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, b)
	}
	return b, err
}
