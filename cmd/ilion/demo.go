// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

type demoCommand struct {
	Nodes   int           `default:"4" help:"Number of nodes, 1 to 9, each in its own process (default ${default})"`
	Data    string        `placeholder:"DIR" help:"Data directory to keep (default: a temporary directory that is removed on exit)"`
	Restart time.Duration `default:"15s" help:"Time until a killed node is restarted (default ${default})"`
	Port    int           `default:"9042" help:"CQL port; all other ports shift by the same amount (default ${default})"`
}

// demo is a cluster of local processes.
type demo struct {
	demoCommand
	program string
	out     io.Writer
	mu      sync.Mutex // guards out
}

// Run starts the nodes, inserts sample rows, and restarts killed nodes until the command is interrupted.
func (c *demoCommand) Run(out io.Writer) error {
	if c.Nodes < 1 || c.Nodes > 9 {
		return &usageError{"invalid --nodes: expected a number from 1 to 9"}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	d := &demo{demoCommand: *c, program: program, out: out}
	if d.Data == "" {
		if d.Data, err = os.MkdirTemp("", "ilion-demo-"); err != nil {
			return err
		}
		defer os.RemoveAll(d.Data)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return d.run(ctx)
}

func (d *demo) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	d.say("Starting %d nodes; data in %s\n", d.Nodes, d.Data)
	for i := range d.Nodes {
		p, err := d.start(ctx, i)
		if err != nil {
			return err
		}
		d.say("  node %d   CQL %-16s HTTP http://%-16s process %d\n", i+1, d.addr(i, d.Port), d.addr(i, d.httpPort()),
			p.Process.Pid)
		wg.Go(func() { d.keep(ctx, i, p) })
	}
	if err := d.fill(ctx); err != nil {
		return fmt.Errorf("cannot write the sample data: %w", err)
	}
	d.say(demoHints, d.addr(0, d.Port), d.addr(0, d.httpPort()), strings.Replace(d.addr(0, d.Port), ":", " ", 1))
	<-ctx.Done()
	return nil
}

// demoHints suggests commands to try.
const demoHints = `
The cluster is ready. In another terminal, try these commands:

  cqlsh %[3]s                      Query the sample data: SELECT * FROM demo.foods WHERE food_group = 'Beef Products';
  ilion status --http %[2]s    Show nodes and problems
  ilion bench mixed --addr %[1]s --consistency QUORUM
  kill -9 <process>                       Kill a node. Reads and writes continue, and the demo restarts the node

Press Ctrl-C here to stop.
`

func (d *demo) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, format, args...)
}

func (d *demo) addr(i, port int) string { return fmt.Sprintf("127.0.0.%d:%d", i+1, port) }
func (d *demo) httpPort() int           { return d.Port - 9042 + 8080 }
func (d *demo) restPort() int           { return d.Port - 9042 + 8081 }
func (d *demo) innerPort() int          { return d.Port - 9042 + 7000 }

// start starts a node and waits for the node to be ready.
func (d *demo) start(ctx context.Context, i int) (*exec.Cmd, error) {
	dir := filepath.Join(d.Data, fmt.Sprintf("node%d", i+1))
	if err := os.MkdirAll(d.Data, 0o755); err != nil {
		return nil, err
	}
	config := filepath.Join(d.Data, "demo.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "memory:\n  budget: %d\n", options.ShareOfMemory(d.Nodes)),
		0o644); err != nil {
		return nil, err
	}
	args := []string{"start", "--config", config, "--data", dir, "--cql", d.addr(i, d.Port), "--http",
		d.addr(i, d.httpPort()), "--rest", d.addr(i, d.restPort()), "--internal", d.addr(i, d.innerPort()),
		"--zone", fmt.Sprintf("zone%d", i+1), "--join-secret-file", filepath.Join(d.Data, "join-secret")}
	if i == 0 {
		args = append(args, "--bootstrap")
	} else {
		args = append(args, "--join", d.addr(0, d.innerPort()))
	}
	log, err := os.OpenFile(dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(d.program, args...)
	cmd.Stderr = log
	cmd.SysProcAttr = ownGroup()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start node %d: %w", i+1, err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || ctx.Err() != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("cannot start node %d: %s", i+1, lastLine(dir+".log", line))
	}
	return cmd, nil
}

// lastLine returns the last line of a log. Error messages contain this line.
func lastLine(path, fallback string) string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return fallback
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// keep restarts a node whenever the node exits, until ctx ends.
func (d *demo) keep(ctx context.Context, i int, p *exec.Cmd) {
	for {
		ended := make(chan error, 1)
		go func() { ended <- p.Wait() }()
		select {
		case <-ctx.Done():
			_ = p.Process.Signal(syscall.SIGTERM)
			<-ended //nolint:errcheck // the process was stopped
			return
		case err := <-ended:
			d.say("node %d (process %d) ended: %v. It restarts in %s\n", i+1, p.Process.Pid, err, d.Restart)
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(d.Restart):
			}
			next, err := d.start(ctx, i)
			if err == nil {
				p = next
				d.say("node %d restarted as process %d\n", i+1, p.Process.Pid)
				break
			}
			if errors.Is(err, context.Canceled) {
				return
			}
			d.say("%v\n", err)
		}
	}
}

// The sample data consists of foods that are partitioned by food group.
var demoFoods = []struct {
	group, name string
	calories    int
}{
	{"Beef Products", "Beef, ground", 254}, {"Beef Products", "Beef, tenderloin", 247},
	{"Beef Products", "Beef, brisket", 251},
	{"Baked Products", "Bread, rye", 259}, {"Baked Products", "Croissant, butter", 406},
	{"Baked Products", "Bagel, plain", 264},
	{"Sausages and Luncheon Meats", "Salami, Italian", 425}, {"Sausages and Luncheon Meats", "Frankfurter, beef", 322},
	{"Vegetables", "Kale, raw", 35}, {"Vegetables", "Leek, raw", 61},
}

func (d *demo) fill(ctx context.Context) error {
	c, err := rawclient.Dial(ctx, d.addr(0, d.Port), rawclient.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, text := range []string{
		"CREATE KEYSPACE IF NOT EXISTS demo WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE IF NOT EXISTS demo.foods (food_group text, name text, calories int, PRIMARY KEY (food_group, " +
			"name))",
	} {
		if _, err := c.Query(text); err != nil {
			return err
		}
	}
	for _, f := range demoFoods {
		if _, err := c.Query(fmt.Sprintf("INSERT INTO demo.foods (food_group, name, calories) VALUES ('%s', '%s', %d)",
			f.group, f.name, f.calories)); err != nil {
			return err
		}
	}
	return nil
}
