// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/process"
)

// wires is a network in which each node has a network namespace and one bridge connects all namespaces. wires requires
// root privileges.
type wires struct {
	t      testing.TB
	prefix string // prefix of all names
	net    string // network prefix in the form 10.x.y.
}

// newWiredFleet prepares a cluster without nodes whose links can be cut.
func newWiredFleet(t testing.TB, config string) *fleet {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	pid := os.Getpid()
	w := &wires{t: t, prefix: fmt.Sprintf("il%d", pid%100000), net: fmt.Sprintf("10.%d.%d.", 128+pid%100, pid/100%250)}
	if out, err := exec.Command("ip", "link", "add", w.prefix, "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("cannot create a bridge: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", w.prefix).Run() })
	w.ip("addr add %s254/24 dev %s", w.net, w.prefix)
	w.ip("link set %s up", w.prefix)
	f := newFleet(t, config)
	f.net, f.wires = w.net, w
	return f
}

// ip runs the ip command.
func (w *wires) ip(format string, args ...any) {
	w.t.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %s: %v: %s", strings.Join(words, " "), err, out)
	}
}

func (w *wires) space(m *member) string { return fmt.Sprintf("%s-%d", w.prefix, m.index+1) }

// attach creates the namespace of a node.
func (w *wires) attach(m *member) {
	w.t.Helper()
	ns := w.space(m)
	w.ip("netns add %s", ns)
	w.t.Cleanup(func() {
		m.kill()
		// Forcibly closed connections keep a namespace and its interface alive for some time.
		_ = exec.Command("ip", "link", "del", fmt.Sprintf("%sv%d", w.prefix, m.index+1)).Run()
		_ = exec.Command("ip", "netns", "del", ns).Run()
	})
	w.ip("link add %sv%d type veth peer name eth0 netns %s", w.prefix, m.index+1, ns)
	w.ip("link set %sv%d master %s up", w.prefix, m.index+1, w.prefix)
	w.ip("-n %s addr add %s/24 dev eth0", ns, m.ip)
	w.ip("-n %s link set eth0 up", ns)
	w.ip("-n %s link set lo up", ns)
	m.args = append(m.args, "--insecure")
}

// command returns a command that runs cmd in the namespace of a node.
func (w *wires) command(m *member, cmd *exec.Cmd) *exec.Cmd {
	in := exec.Command("ip", append([]string{"netns", "exec", w.space(m)}, cmd.Args...)...)
	in.Env = cmd.Env
	return in
}

// cut drops all packets between a and b. The packets are sent to an interface that does not exist, so neither side is
// notified.
func (w *wires) cut(a, b *member) {
	w.t.Helper()
	for _, p := range [][2]*member{{a, b}, {b, a}} {
		w.ip("-n %s neigh replace %s lladdr 02:00:00:00:00:99 nud permanent dev eth0", w.space(p[0]), p[1].ip)
	}
}

// mend reverts cut.
func (w *wires) mend(a, b *member) {
	w.t.Helper()
	for _, p := range [][2]*member{{a, b}, {b, a}} {
		w.ip("-n %s neigh del %s dev eth0", w.space(p[0]), p[1].ip)
	}
}

// TestCutOff checks that a leader is replaced after a timeout if it is cut off from all other nodes. Clients of the
// other nodes must see no errors, and the old leader must not serve stale data.
func TestCutOff(t *testing.T) {
	onlyLong(t)
	f := newWiredFleet(t, "")
	for range 4 {
		f.add().start()
	}
	f.settle()
	l := startLoad(f, *clients, 0)
	m := f.leader("load.plain")
	rest := f.without(m)
	l.only(rest...)
	w := &witness{f: f, at: rest[0], from: m}
	w.start()
	l.more(*requests / 8)
	l.mark(m.name() + " is cut off")
	for _, o := range rest {
		f.wires.cut(m, o)
	}
	l.lasts(5 * time.Second)
	l.mark("the links are back")
	for _, o := range rest {
		f.wires.mend(m, o)
	}
	f.settle()
	l.only(f.alive()...)
	l.more(*requests / 8)
	w.finish()
	l.finish()
}

// witness writes growing values on one node and reads them at QUORUM on another node. Reads may be rejected but must
// not return stale data.
type witness struct {
	f        *fleet
	at, from *member
	stop     atomic.Bool
	wg       sync.WaitGroup
	acked    atomic.Int64
	right    int
	refused  int
	stale    string
}

func (w *witness) start() {
	w.f.t.Helper()
	writer, reader := w.at.dial(), w.from.dial()
	w.f.t.Cleanup(func() { w.stop.Store(true); w.wg.Wait() })
	w.wg.Go(func() {
		for v := int64(1); !w.stop.Load(); v++ {
			if _, err := process.Query(writer, dberr.Quorum,
				fmt.Sprintf("INSERT INTO load.plain (k, v) VALUES (-1, %d)", v)); err != nil {
				w.f.t.Errorf("write of the witness: %v", err)
				return
			}
			w.acked.Store(v)
		}
	})
	w.wg.Go(func() {
		for !w.stop.Load() {
			least := w.acked.Load()
			r, err := process.Query(reader, dberr.Quorum, "SELECT v FROM load.plain WHERE k = -1")
			if err != nil {
				w.refused++
				continue
			}
			w.right++
			if got := number(r, "v", 0); got < least {
				w.stale = fmt.Sprintf("read %d at QUORUM after %d was acknowledged", got, least)
			}
		}
	})
}

func (w *witness) finish() {
	w.f.t.Helper()
	w.stop.Store(true)
	w.wg.Wait()
	if w.stale != "" {
		w.f.t.Error(w.stale)
	}
	w.f.t.Logf("reads on the isolated node: %d correct, %d rejected", w.right, w.refused)
}

// TestCutPair checks the results for clients while two nodes cannot reach each other and all other links work. No
// result may be wrong, and all requests must succeed when the link is restored.
func TestCutPair(t *testing.T) {
	onlyLong(t)
	f := newWiredFleet(t, "")
	for range 4 {
		f.add().start()
	}
	f.settle()
	l := startLoad(f, *clients, 0)
	a := f.leader("load.plain")
	b := f.without(a)[0]
	l.more(*requests / 8)
	l.mark(fmt.Sprintf("no link between %s and %s", a.name(), b.name()))
	l.tolerate(true)
	f.wires.cut(a, b)
	l.lasts(5 * time.Second)
	f.wires.mend(a, b)
	l.mark("the link is back")
	f.settle()
	l.only(f.without(a, b)...) // wait for earlier requests
	l.only(f.alive()...)
	l.tolerate(false)
	l.more(*requests / 8)
	l.finish()
}
