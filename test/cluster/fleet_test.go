// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/wan"
)

// long enables the slow tests. Together, they take more than a minute.
var long = flag.Bool("cluster.long", false, "run all cluster tests")

// onlyLong skips a test without -cluster.long.
func onlyLong(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("long test: needs -cluster.long")
	}
}

// keepDir is a directory for the logs of the nodes. logLevel is their level.
var (
	keepDir  = flag.String("logs", "", "directory for the logs of the nodes")
	logLevel = flag.String("log-level", "info", "level of the logs of the nodes")
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	cqlPort, webPort, innerPort = 19042, 18080, 17000
	// startTime is the maximum start time of a node. settleTime is the time within which a healthy cluster completes
	// all replica sets.
	startTime, settleTime = eventually.Limit, eventually.Limit
)

// fleets counts the clusters of this process. Each cluster has separate addresses.
var fleets atomic.Int32

// fleet is a cluster of processes.
type fleet struct {
	t     testing.TB
	dir   string
	net   string // address prefix in the form 127.x.y.
	nodes []*member
	// wires is nil for nodes on loopback addresses; see cut_test.go.
	wires *wires
	// wan connects the regions of nodes. It is nil if all nodes are on loopback addresses.
	wan *wan.Network
	// settleTimeout is the timeout of settle.
	settleTimeout time.Duration
}

// member is a node of a fleet. It has a directory, an address, and a process while it runs.
type member struct {
	f     *fleet
	index int
	ip    string
	dir   string
	args  []string
	// bin is the binary of the node. If bin is empty, the node uses process.Binary. env is the environment of the
	// node. If env is nil, the node uses the environment of the test.
	bin string
	env []string
	// config is added to the configuration file of this node only.
	config string
	// space is the number of the node's region in fleet.wan.
	space int
	cmd   *exec.Cmd
	ended chan struct{}
}

// newFleet prepares a cluster without nodes. config is added to the configuration file of every node.
func newFleet(t testing.TB, config string) *fleet {
	t.Helper()
	process.Binary(t)
	pid := os.Getpid()
	f := &fleet{t: t, dir: t.TempDir(), net: fmt.Sprintf("127.%d.%d.", 1+pid%250, pid/250%8*30+int(fleets.Add(1))%30+1)}
	f.settleTimeout = settleTime
	body := "memory:\n  budget: 192MiB\n" + config
	if !strings.Contains(config, "limits:") { // with the default timeouts, requests fail on a busy machine
		body += "limits:\n  read_timeout: 15s\n  write_timeout: 15s\n"
	}
	if err := os.WriteFile(f.config(), []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.killAll)
	return f
}

// startFleet starts a cluster of n nodes and waits until all replica sets are complete.
func startFleet(t testing.TB, n int, config string) *fleet {
	t.Helper()
	f := newFleet(t, config)
	for range n {
		f.add().start()
	}
	f.settle()
	return f
}

func (f *fleet) config() string { return filepath.Join(f.dir, "ilion.yaml") }

// killAll kills all running processes. If the test failed, killAll prints the ends of their logs.
func (f *fleet) killAll() {
	if f.t.Failed() && *keepDir != "" {
		f.keepStatus()
	}
	for _, m := range f.nodes {
		m.kill()
	}
	for _, m := range f.nodes {
		b, err := os.ReadFile(m.log())
		if err != nil {
			continue
		}
		if *keepDir != "" {
			_ = os.MkdirAll(*keepDir, 0o755)
			name := fmt.Sprintf("%s-%d.log", strings.ReplaceAll(f.t.Name(), "/", "-"), m.index+1)
			_ = os.WriteFile(filepath.Join(*keepDir, name), b, 0o644)
		}
		if f.t.Failed() {
			f.t.Logf("log of node %d (%s):\n%s", m.index+1, m.ip, b[max(0, len(b)-3000):])
		}
	}
}

// keepStatus saves the status reports of the nodes of a failed test.
func (f *fleet) keepStatus() {
	for _, m := range f.alive() {
		for _, page := range []string{"status", "metrics", "debug/pprof/goroutine?debug=2"} {
			resp, err := process.Owner(m.dir).Get("http://localhost/" + page)
			if err != nil {
				continue
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil {
				name := fmt.Sprintf("%s-%d.%s", strings.ReplaceAll(f.t.Name(), "/", "-"), m.index+1,
					strings.NewReplacer("/", "-", "?", "-").Replace(page))
				_ = os.WriteFile(filepath.Join(*keepDir, name), b, 0o644)
			}
		}
	}
}

// add creates a node without starting it. The first node creates the cluster, and the others join it.
func (f *fleet) add() *member {
	i := len(f.nodes)
	m := &member{f: f, index: i, ip: fmt.Sprintf("%s%d", f.net, i+1),
		dir: filepath.Join(f.dir, fmt.Sprintf("node%d", i+1))}
	if i == 0 {
		m.args = []string{"--bootstrap"}
	} else {
		var join []string
		for _, o := range f.nodes {
			join = append(join, o.inner())
		}
		m.args = []string{"--join", strings.Join(join, ",")}
	}
	f.nodes = append(f.nodes, m)
	if f.wires != nil {
		f.wires.attach(m)
	}
	return m
}

func (m *member) cql() string   { return fmt.Sprintf("%s:%d", m.ip, cqlPort) }
func (m *member) web() string   { return fmt.Sprintf("%s:%d", m.ip, webPort) }
func (m *member) inner() string { return fmt.Sprintf("%s:%d", m.ip, innerPort) }
func (m *member) log() string   { return filepath.Join(m.f.dir, fmt.Sprintf("node%d.log", m.index+1)) }
func (m *member) name() string  { return fmt.Sprintf("node %d", m.index+1) }

// start starts the node and waits until it is ready.
func (m *member) start() {
	m.f.t.Helper()
	if err := m.tryStart(); err != nil {
		m.f.t.Fatal(err)
	}
}

// tryStart works like start for nodes that may fail to start. tryStart is safe to call from any goroutine.
func (m *member) tryStart() error {
	ready := m.launch(append([]string{"--internal", m.inner()}, m.args...)...)
	select {
	case err := <-ready:
		return err
	case <-time.After(startTime):
		return fmt.Errorf("%s is not ready after %s: %s", m.name(), startTime, m.lastLogLine())
	}
}

// launch starts the process with arguments. launch sends exactly one value when the process is ready or has ended.
func (m *member) launch(args ...string) <-chan error {
	ready := make(chan error, 1)
	log, err := os.OpenFile(m.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		ready <- err
		return ready
	}
	defer log.Close()
	config := m.f.config()
	if m.config != "" {
		shared, err := os.ReadFile(config)
		config = fmt.Sprintf("%s.%d", config, m.index+1)
		if err == nil {
			err = os.WriteFile(config, append(shared, m.config...), 0o644)
		}
		if err != nil {
			ready <- err
			return ready
		}
	}
	args = append([]string{"start", "--data", m.dir, "--cql", m.cql(), "--http", m.web(), "--config", config,
		"--log-level", *logLevel}, args...)
	cmd := process.Command(m.f.t, args...)
	if m.bin != "" {
		cmd.Path, cmd.Args[0] = m.bin, m.bin
	}
	if m.bin != "" && m.bin == *olderBin {
		cmd.Env = append(cmd.Env, process.OlderEnvironment(m.f.t)...)
	}
	cmd.Env = append(cmd.Env, m.env...)
	if m.f.wires != nil {
		cmd = m.f.wires.command(m, cmd)
	}
	if m.f.wan != nil {
		cmd = m.f.wan.Command(m.space, cmd)
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		ready <- err
		return ready
	}
	ended := make(chan struct{})
	m.cmd, m.ended = cmd, ended
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		if strings.Contains(line, "ready") {
			ready <- nil
		}
		_ = cmd.Wait()
		close(ended)
		if !strings.Contains(line, "ready") {
			ready <- fmt.Errorf("%s ended: %s", m.name(), m.lastLogLine())
		}
	}()
	return ready
}

// lastLogLine returns the last line of the log.
func (m *member) lastLogLine() string {
	b, err := os.ReadFile(m.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

func (m *member) running() bool {
	if m.cmd == nil {
		return false
	}
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal to the process.
func (m *member) signal(s syscall.Signal) {
	m.f.t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		m.f.t.Fatal(err)
	}
}

// kill kills the process with SIGKILL if it runs.
func (m *member) kill() {
	if m.running() {
		_ = m.cmd.Process.Kill() // the process may already have ended
		<-m.ended
	}
}

// stop stops the process with SIGTERM and returns the duration of the shutdown.
func (m *member) stop() time.Duration {
	m.f.t.Helper()
	began := time.Now()
	m.signal(syscall.SIGTERM)
	select {
	case <-m.ended:
	case <-time.After(time.Minute):
		m.f.t.Fatalf("%s has not ended a minute after SIGTERM", m.name())
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		m.f.t.Errorf("%s ended with code %d: %s", m.name(), code, m.lastLogLine())
	}
	return time.Since(began)
}

// wipe removes the disk of a node that is not running.
func (m *member) wipe() {
	m.f.t.Helper()
	if err := os.RemoveAll(m.dir); err != nil {
		m.f.t.Fatal(err)
	}
	if m.index == 0 {
		m.args = []string{"--join", m.f.nodes[1].inner() + "," + m.f.nodes[2].inner()}
	}
}

// dial connects a client to the node.
func (m *member) dial() *rawclient.Conn {
	m.f.t.Helper()
	c, err := rawclient.Dial(m.f.t.Context(), m.cql(), rawclient.Options{})
	if err != nil {
		m.f.t.Fatal(err)
	}
	m.f.t.Cleanup(func() { c.Close() })
	return c
}

// do runs statements, which must succeed.
func (m *member) do(statements ...string) {
	m.f.t.Helper()
	c := m.dial()
	defer c.Close()
	process.Do(m.f.t, c, statements...)
}

// browser sends HTTP requests, which must complete quickly.
var browser = http.Client{Timeout: 10 * time.Second}

// status returns the cluster status according to the node.
func (m *member) status() (*admin.Status, error) {
	resp, err := browser.Get("http://" + m.web() + "/status")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var s admin.Status
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return nil, err
	}
	return &s, nil
}

// order sends the node an administrative request about another node.
func (m *member) order(what, about string) {
	m.f.t.Helper()
	process.Order(m.f.t, m.dir, "/node/"+what+"?node="+url.QueryEscape(about))
}

// id returns the identity of the node.
func (m *member) id() string {
	m.f.t.Helper()
	s, err := m.status()
	if err != nil {
		m.f.t.Fatal(err)
	}
	return s.Node
}

// alive returns the nodes with a running process.
func (f *fleet) alive() []*member {
	var out []*member
	for _, m := range f.nodes {
		if m.running() {
			out = append(out, m)
		}
	}
	return out
}

// without returns the running nodes except the given nodes.
func (f *fleet) without(not ...*member) []*member {
	var out []*member
next:
	for _, m := range f.alive() {
		for _, n := range not {
			if m == n {
				continue next
			}
		}
		out = append(out, m)
	}
	return out
}

// until waits until missing returns "". missing describes the unmet condition.
func (f *fleet) until(what string, limit time.Duration, missing func() string) time.Duration {
	f.t.Helper()
	return eventually.None(f.t, what, limit, missing)
}

// settle waits until every running node reports no problems and every replica set is complete. A complete set has a
// leader, and as many voters as the cluster has nodes, up to four. The nodes must also know each other's dedupe start
// times.
func (f *fleet) settle() time.Duration {
	f.t.Helper()
	return f.until("settle", f.settleTimeout, func() string {
		alive := f.alive()
		for _, m := range alive {
			s, err := m.status()
			if err != nil {
				return err.Error()
			}
			if text := unsettled(s, len(alive)); text != "" {
				return m.name() + ": " + text
			}
		}
		return unacquainted(alive)
	})
}

// acquaint waits until every running node knows the dedupe start times of all other nodes.
func (f *fleet) acquaint() {
	f.t.Helper()
	f.until("nodes know each other", settleTime, func() string { return unacquainted(f.alive()) })
}

// unacquainted returns two nodes, of which the first does not know the dedupe start time of the second.
func unacquainted(alive []*member) string {
	own := map[string]string{} // the start time that each node reports for itself
	seen := map[string]map[string]string{}
	for _, m := range alive {
		s, err := m.status()
		if err != nil {
			return err.Error()
		}
		seen[s.Node] = map[string]string{}
		for _, n := range s.Nodes {
			seen[s.Node][n.ID] = n.WriteMemory
		}
		own[s.Node] = seen[s.Node][s.Node]
	}
	for node, of := range seen {
		for other, memory := range own {
			reported := own[node] != "" && memory != "" // builds up to level 5 do not report the start time
			if reported && of[other] != memory {
				return fmt.Sprintf("node %s does not know since when node %s remembers writes", node, other)
			}
		}
	}
	return ""
}

// still waits until settle succeeds and no replica has moved for some time.
func (f *fleet) still() {
	f.t.Helper()
	was, since := "", time.Now()
	f.until("replicas stay where they are", settleTime, func() string {
		s, err := f.alive()[0].status()
		if err != nil {
			return err.Error()
		}
		var now strings.Builder
		for _, table := range s.Tables {
			for _, p := range table.Partitions {
				fmt.Fprint(&now, p.ID, p.Replicas)
			}
		}
		if now.String() != was {
			was, since = now.String(), time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return "they have just moved"
		}
		return ""
	})
	f.settle()
}

func unsettled(s *admin.Status, nodes int) string {
	voters := map[int]int{1: 1, 2: 1, 3: 3}[nodes]
	if voters == 0 {
		voters = 4
	}
	up := 0
	for _, n := range s.Nodes {
		if n.State == "up" {
			up++
		}
	}
	if up != nodes {
		return fmt.Sprintf("%d nodes are up", up)
	}
	if len(s.Problems) > 0 && nodes >= 4 {
		return s.Problems[0]
	}
	for _, table := range s.Tables {
		for _, p := range table.Partitions {
			have, here := 0, false
			for _, r := range p.Replicas {
				if r.State == "voter" {
					have++
				}
				here = here || r.Node == s.Node
			}
			switch {
			case have != voters || len(p.Replicas) != voters:
				return fmt.Sprintf("%s has %d voters, %d replicas", table.Name, have, len(p.Replicas))
			case here && p.Leader == "":
				return table.Name + " has no leader"
			}
		}
	}
	return ""
}

// leader returns the node that leads the first partition of a table.
func (f *fleet) leader(table string) *member {
	f.t.Helper()
	var found *member
	f.until("leader of "+table, eventually.Limit, func() string {
		for _, m := range f.alive() {
			s, err := m.status()
			if err != nil {
				continue
			}
			for _, t := range s.Tables {
				if t.Name == table && len(t.Partitions) > 0 {
					if found = f.byID(s, t.Partitions[0].Leader); found != nil {
						return ""
					}
				}
			}
		}
		return "the leader is unknown"
	})
	return found
}

// byID returns the node of status s that has the given ID.
func (f *fleet) byID(s *admin.Status, id string) *member {
	for _, n := range s.Nodes {
		if n.ID != id || id == "" {
			continue
		}
		for _, m := range f.nodes {
			if m.cql() == n.CQL {
				return m
			}
		}
	}
	return nil
}
