// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/freeport"
	"github.com/ilion-db/ilion/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// statementTimeout is the maximum wait for a response.
const statementTimeout = 30 * time.Second

// nodes is a standalone node or a cluster. Its processes are killed and restarted while they serve requests.
type nodes struct {
	t        testing.TB
	config   string
	dirs     []string
	internal []string
	// processes holds the processes that were started last.
	processes []*process.Server
	// at is the index of the node that receives the requests.
	at   int
	conn *rawclient.Conn
	// broken is set while one of several nodes is down or recovering.
	broken atomic.Bool
	kills  atomic.Int64
	wait   sync.WaitGroup
}

func startNodes(t testing.TB, n int) *nodes {
	t.Helper()
	dir := t.TempDir()
	c := &nodes{t: t, config: filepath.Join(dir, "ilion.yaml"), processes: make([]*process.Server, n)}
	if err := os.WriteFile(c.config, fmt.Appendf(nil, "initial_partitions: %d\nmemory: {budget: 192MiB}\n"+
		"user_defined_functions_enabled: true\n",
		*partitions), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		free, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		c.internal = append(c.internal, free)
		c.dirs = append(c.dirs, filepath.Join(dir, fmt.Sprint("node", i)))
		c.start(i, true)
	}
	c.whole()
	c.connect(0)
	return c
}

func (c *nodes) start(i int, first bool) {
	args := []string{"--config", c.config}
	switch {
	case len(c.processes) == 1:
	case !first:
		args = append(args, "--internal", c.internal[i])
	case i == 0:
		args = append(args, "--internal", c.internal[i], "--bootstrap")
	default:
		args = append(args, "--internal", c.internal[i], "--join", c.internal[0])
	}
	s, err := process.TryStart(c.t, c.dirs[i], args...)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.processes[i] = s
}

// whole waits until every partition has all its voters and every node sees every other node as up.
func (c *nodes) whole() {
	if len(c.processes) == 1 {
		return
	}
	if took, why := eventually.Try(2*time.Minute, c.missing); why != "" {
		c.t.Errorf("the nodes are not complete after %s: %s", took, why)
	}
}

// missing describes why the nodes are not complete, or returns "".
func (c *nodes) missing() string {
	for i, p := range c.processes {
		s := process.Status(c.t, p)
		for _, n := range s.Nodes {
			if n.State != "up" {
				return fmt.Sprintf("node %d: %s is %s", i, n.CQL, n.State)
			}
		}
		for _, table := range s.Tables {
			for _, p := range table.Partitions {
				voters := 0
				for _, r := range p.Replicas {
					if r.State == "voter" {
						voters++
					}
				}
				if voters != len(c.processes) || len(p.Replicas) != voters || p.Leader == "" {
					return fmt.Sprintf("node %d: partition %d of %s has %d voters of %d, led by %q", i, p.ID, table.Name,
						voters, len(p.Replicas), p.Leader)
				}
			}
		}
	}
	return ""
}

func (c *nodes) connect(i int) {
	c.t.Helper()
	if c.conn != nil {
		c.conn.Close()
	}
	var err error
	if c.conn, err = rawclient.Dial(c.t.Context(), c.processes[i].CQL,
		rawclient.Options{Timeout: statementTimeout}); err != nil {
		c.t.Fatal(err)
	}
	c.at = i
}

// disturb kills a node with SIGKILL and restarts the node after some time. A standalone node is killed between two
// statements. In a cluster, the killed node may be the node that receives the requests. The client then switches to
// another node.
func (c *nodes) disturb(d draw) {
	if len(c.processes) == 1 {
		c.kills.Add(1)
		c.processes[0].Kill()
		c.start(0, false)
		c.conn.Close()
		c.connect(0)
		_, _ = c.conn.Query("USE compared")
		return
	}
	if !c.broken.CompareAndSwap(false, true) {
		return
	}
	victim, away := d.IntN(len(c.processes)), time.Duration(d.IntN(3000))*time.Millisecond
	after := time.Duration(d.IntN(100)) * time.Millisecond
	if victim == c.at {
		after = 0
		c.connect((victim + 1 + d.IntN(len(c.processes)-1)) % len(c.processes))
		_, _ = c.conn.Query("USE compared")
	}
	c.kills.Add(1)
	c.wait.Go(func() {
		time.Sleep(after) // the kill interrupts a running statement after this time
		c.processes[victim].Kill()
		time.Sleep(away) // the node misses many or few changes during this time
		c.start(victim, false)
		c.whole()
		c.broken.Store(false)
	})
}

// goroutines stops the node that receives the requests and returns the stacks of its goroutines.
func (c *nodes) goroutines() string {
	s := c.processes[c.at]
	_ = s.Cmd.Process.Signal(syscall.SIGQUIT) // if the process has ended, the last output is the only information
	s.Wait(c.t, time.Minute)
	return s.Stderr()
}
