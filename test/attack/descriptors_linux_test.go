// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// headroom is the number of file descriptors that the process may open after the limit is set.
const headroom = 40

// TestNoDescriptors checks A1. A process without free file descriptors must accept writes, flush, and compact. It must
// accept new clients when descriptors are free again. Clients with and without a login use up the descriptors.
func TestNoDescriptors(t *testing.T) {
	v := startVictim(t)
	v.do("CREATE TABLE ks.before (k int PRIMARY KEY)")
	v.observe()
	poured, stop := v.pour()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(len(open)) + headroom
	if err := unix.Prlimit(v.Cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit},
		nil); err != nil {
		t.Fatal(err)
	}
	startup := rawclient.AppendFrame(nil, 0, cqlwire.OpStartup,
		cqlwire.AppendStartup(nil, cqlwire.Startup{"CQL_VERSION": "3.0.0"}))
	for name, first := range map[string][]byte{"strangers": startup[:9], "clients": startup} {
		held := v.crowd(5*headroom, first)
		for range rounds(1) {
			// Memtables fill up, so new files are needed.
			want := poured.Load() + 24<<20/pouredBytes
			v.until("the store continues without descriptors while "+name+" have them", func() bool {
				return poured.Load() >= want
			})
		}
		for _, nc := range held {
			nc.Close()
		}
		v.until("new clients can connect", func() bool { return v.lets() })
	}
	stop()
	v.do("CREATE TABLE ks.after (k int PRIMARY KEY)")
	v.endure()
}

// lets reports whether a new client can connect.
func (v *victim) lets() bool {
	c, err := rawclient.Dial(v.t.Context(), v.CQL, rawclient.Options{Timeout: time.Second})
	if err == nil {
		c.Close()
	}
	return err == nil
}
