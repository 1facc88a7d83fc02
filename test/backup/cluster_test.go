// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/test/freeport"
	"github.com/ilion-db/ilion/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// cluster is a cluster or a standalone node.
type cluster struct {
	t     *testing.T
	base  string
	args  [][]string
	nodes []*process.Server
	cql   *gocql.Session
}

func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// start starts the nodes. Their tables have the given number of partitions.
func start(t *testing.T, nodes, partitions int) *cluster {
	t.Helper()
	c := &cluster{t: t, base: t.TempDir()}
	config := filepath.Join(c.base, "ilion.yaml")
	// With the default timeouts, requests fail on a busy machine.
	text := fmt.Appendf(nil, "initial_partitions: %d\nlimits: {read_timeout: 30s, write_timeout: 30s}\n", partitions)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	first := ""
	for i := range nodes {
		args := []string{"--config", config}
		if nodes > 1 {
			address := freeAddress(t)
			if args = append(args, "--internal", address); i == 0 {
				args, first = append(args, "--bootstrap"), address
			} else {
				args = append(args, "--join", first)
			}
		}
		c.args = append(c.args, args)
		c.nodes = append(c.nodes, process.Start(t, c.dir(i), args...))
	}
	c.connect(0)
	return c
}

func (c *cluster) dir(i int) string { return filepath.Join(c.base, fmt.Sprint("node", i)) }

// restart starts a node that was killed.
func (c *cluster) restart(i int) {
	c.t.Helper()
	c.nodes[i] = process.Start(c.t, c.dir(i), c.args[i]...)
}

// connect connects the client for statements to node i.
func (c *cluster) connect(i int) {
	c.t.Helper()
	config := gocql.NewCluster(c.nodes[i].CQL)
	config.DisableInitialHostLookup, config.Consistency = true, gocql.Quorum
	config.Timeout, config.ConnectTimeout, config.NumConns = 30*time.Second, 30*time.Second, 4
	var err error
	if c.cql, err = config.CreateSession(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.cql.Close)
}

func (c *cluster) do(statements ...string) {
	c.t.Helper()
	for _, s := range statements {
		if err := c.cql.Query(s).Exec(); err != nil {
			c.t.Fatalf("%s: %v", s, err)
		}
	}
}

// count counts the rows of a table.
func (c *cluster) count(table string) (n int) {
	c.t.Helper()
	iter := c.cql.Query("SELECT * FROM " + table).Iter()
	row := map[string]any{}
	for ; iter.MapScan(row); row = map[string]any{} {
		n++
	}
	if err := iter.Close(); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// ilion runs a command of the tool on a node and returns its output.
func (c *cluster) ilion(i int, args ...string) (string, error) {
	c.t.Helper()
	return c.tool(c.t.Context(), append(args, "--data", c.dir(i))...)
}

func (c *cluster) tool(ctx context.Context, args ...string) (string, error) {
	c.t.Helper()
	cmd := process.Command(c.t, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	err := cmd.Wait()
	return strings.TrimSpace(out.String()), err
}

// must calls ilion for a command that must succeed.
func (c *cluster) must(i int, args ...string) string {
	c.t.Helper()
	out, err := c.ilion(i, args...)
	if err != nil {
		c.t.Fatalf("ilion %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	c.t.Logf("ilion %s\n%s", strings.Join(args, " "), out)
	return out
}
