// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoDescriptors proves A1: a process that may open no further file, as clients have taken them all, keeps its
// store, and goes on when they are gone.
func TestNoDescriptors(t *testing.T) {
	v := startVictim(t)
	v.do("CREATE TABLE ks.before (k int PRIMARY KEY)")
	v.observe()
	// Its memtables fill up meanwhile, which takes new files.
	stop := v.pour()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(len(open)) + 40
	if err := unix.Prlimit(v.Cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit},
		nil); err != nil {
		t.Fatal(err)
	}
	var held []net.Conn
	for range 200 {
		nc, err := net.Dial("tcp", v.CQL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		held = append(held, nc)
	}
	<-time.After(seconds(3))
	for _, nc := range held {
		nc.Close()
	}
	stop()
	v.do("CREATE TABLE ks.after (k int PRIMARY KEY)")
	v.endure()
}
