// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package wan connects network namespaces by an artificial wide-area network. Each region is a namespace, and a router
// in the test process forwards the IPv4 packets between them with a latency. The test process is connected to all
// regions without latency. The package requires root and /dev/net/tun. Start reading at New.
package wan

import (
	"container/heap"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Network is a set of regions, numbered from 0, and the links between them.
type Network struct {
	t      testing.TB
	prefix string // prefix of the names of namespaces and devices
	net    string // the first two bytes of all addresses, with a dot
	// files holds the devices of the regions. The last device belongs to the test process.
	files []*os.File

	mu    sync.Mutex
	links map[[2]int]*link
	queue queue
	sent  uint64
	wake  chan struct{}
	ended chan struct{}
}

// link is one direction between two regions.
type link struct {
	delay time.Duration
	cut   bool
}

// packet is a packet on its way to a region. number keeps packets with the same time in order.
type packet struct {
	at     time.Time
	to     int
	data   []byte
	number uint64
}

type queue []packet

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(packet)) }

func (q queue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].number < q[j].number
}

func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// hosts is the number of addresses of a region.
const hosts = 8

// New creates regions without latencies between them. It skips the test if the machine does not permit such regions.
// The regions are removed at the end of the test.
func New(t testing.TB, regions int) *Network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("the artificial network needs TUN devices: %v", err)
	}
	pid := os.Getpid()
	n := &Network{t: t, prefix: fmt.Sprintf("iw%d", pid%100000), net: fmt.Sprintf("10.%d.", 40+pid%60),
		links: map[[2]int]*link{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	t.Cleanup(n.close)
	for i := range regions + 1 {
		if i < regions {
			if out, err := exec.Command("ip", "netns", "add", n.Space(i)).CombinedOutput(); err != nil {
				t.Skipf("cannot create a network namespace: %v: %s", err, out)
			}
		}
		n.addDevice(i, i == regions)
	}
	for i := range n.files {
		go n.receive(i)
	}
	go n.deliver()
	return n
}

// Space returns the name of a region's namespace.
func (n *Network) Space(region int) string { return fmt.Sprintf("%s-%d", n.prefix, region) }

// Address returns an address in a region. number is below 8.
func (n *Network) Address(region, number int) string {
	return fmt.Sprintf("%s%d.%d", n.net, region, number+1)
}

// SetDelay sets the latency of packets between two regions in each direction.
func (n *Network) SetDelay(a, b int, d time.Duration) {
	n.change(a, b, func(l *link) { l.delay = d })
}

// Cut drops all packets between two regions until Heal is called.
func (n *Network) Cut(a, b int) { n.change(a, b, func(l *link) { l.cut = true }) }

// Heal ends the effect of Cut.
func (n *Network) Heal(a, b int) { n.change(a, b, func(l *link) { l.cut = false }) }

func (n *Network) change(a, b int, f func(*link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, at := range [2][2]int{{a, b}, {b, a}} {
		if n.links[at] == nil {
			n.links[at] = &link{}
		}
		f(n.links[at])
	}
}

// Command returns a command that runs in a region.
func (n *Network) Command(region int, cmd *exec.Cmd) *exec.Cmd {
	in := exec.Command("ip", append([]string{"netns", "exec", n.Space(region)}, cmd.Args...)...)
	in.Env = cmd.Env
	return in
}

// addDevice creates the device of a region or of the test process.
func (n *Network) addDevice(region int, own bool) {
	n.t.Helper()
	f, err := n.open(region, own)
	if err != nil {
		n.t.Skipf("cannot create a TUN device: %v", err)
	}
	n.files = append(n.files, f)
	ip := func(format string, args ...any) {
		n.t.Helper()
		words := strings.Fields(fmt.Sprintf(format, args...))
		if !own {
			words = append([]string{"-n", n.Space(region)}, words...)
		}
		if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
			n.t.Fatalf("ip %s: %v: %s", strings.Join(words, " "), err, out)
		}
	}
	device := n.prefix + "w"
	if !own {
		ip("link set lo up")
		for i := range hosts {
			ip("addr add %s/32 dev lo", n.Address(region, i))
		}
	} else {
		ip("addr add %s/32 dev %s", n.Address(region, 0), device)
	}
	ip("link set %s up mtu 1400 txqueuelen 2000", device)
	ip("route add %s0.0/16 dev %s src %s", n.net, device, n.Address(region, 0))
}

// open opens a TUN device in the namespace of a region.
func (n *Network) open(region int, own bool) (*os.File, error) {
	runtime.LockOSThread()
	if !own {
		self, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			return nil, err
		}
		defer self.Close()
		other, err := os.Open("/run/netns/" + n.Space(region))
		if err != nil {
			return nil, err
		}
		defer other.Close()
		if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
			return nil, err
		}
		defer func() {
			// If the thread cannot return to its namespace, it stays locked and ends with its goroutine.
			if unix.Setns(int(self.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}()
	} else {
		defer runtime.UnlockOSThread()
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	r, err := unix.NewIfreq(n.prefix + "w")
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

// receive reads the packets that a region sends until its device is closed. The third byte of the destination is the
// region.
func (n *Network) receive(from int) {
	const destination, header, version = 16, 20, 4
	b := make([]byte, 1<<16)
	for {
		size, err := n.files[from].Read(b)
		if err != nil {
			return
		}
		to := int(b[destination+2])
		if size < header || b[0]>>4 != version || to >= len(n.files) || to == from {
			continue
		}
		n.mu.Lock()
		l := n.links[[2]int{from, to}]
		if l == nil {
			l = &link{}
		}
		if !l.cut {
			n.sent++
			heap.Push(&n.queue, packet{time.Now().Add(l.delay), to, append([]byte(nil), b[:size]...), n.sent})
		}
		n.mu.Unlock()
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// deliver writes packets to their regions when they are due, until the network is closed.
func (n *Network) deliver() {
	for {
		var due []packet
		wait := time.Hour
		n.mu.Lock()
		for now := time.Now(); len(n.queue) > 0; {
			if wait = n.queue[0].at.Sub(now); wait > 0 {
				break
			}
			due = append(due, heap.Pop(&n.queue).(packet))
			wait = time.Hour
		}
		n.mu.Unlock()
		for _, p := range due {
			_, _ = n.files[p.to].Write(p.data) // a full device drops packets, as a network does
		}
		if len(due) > 0 {
			continue
		}
		select {
		case <-n.ended:
			return
		case <-n.wake:
		case <-time.After(wait):
		}
	}
}

// close removes the regions.
func (n *Network) close() {
	close(n.ended)
	for _, f := range n.files {
		_ = f.Close() // makes receive return
	}
	for i := range len(n.files) {
		_ = exec.Command("ip", "netns", "del", n.Space(i)).Run()
	}
}
