// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/process"
)

// TestSameCommandForAll checks that nodes with the same arguments form one cluster, regardless of the order in which
// they start. A restart must not require another node. If the disk of the first node is new, the node must join the
// existing cluster.
func TestSameCommandForAll(t *testing.T) {
	t.Parallel()
	c := &three{t: t, base: t.TempDir(), nodes: make([]*process.Server, 3)}
	for range 3 {
		c.addresses = append(c.addresses, freeAddress(t))
	}
	start := func(i int, dir string) (*process.Server, error) {
		return process.TryStart(t, dir, "--internal", c.addresses[i], "--bootstrap", "--join",
			strings.Join(c.addresses, ","))
	}
	ready := make(chan error)
	for i := range 3 {
		go func() {
			var err error
			if c.nodes[i], err = start(i, c.dir(i)); err != nil {
				err = fmt.Errorf("node %d: %w", i, err)
			}
			ready <- err
		}()
	}
	for range 3 {
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
	}
	c.client = c.nodes[1].Dial(t)
	t.Cleanup(func() { c.client.Close() })
	process.Do(t, c.client,
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE ks.t (k int PRIMARY KEY)")
	whole(t, c.nodes)
	c.write()

	c.nodes[0].Stop(t)
	again, err := start(0, c.dir(0))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(again.Stderr(), "looking for the cluster") {
		t.Errorf("a restarted member searches for the cluster:\n%s", again.Stderr())
	}
	c.nodes[0] = again
	whole(t, c.nodes)
	c.check()

	again.Kill()
	if err := os.RemoveAll(c.dir(0)); err != nil {
		t.Fatal(err)
	}
	fresh, err := start(0, c.dir(0))
	if err != nil {
		t.Fatal(err)
	}
	client := fresh.Dial(t)
	t.Cleanup(func() { client.Close() })
	c.client = client
	c.check()
}
