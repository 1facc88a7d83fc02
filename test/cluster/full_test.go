// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

var allDisks = flag.Bool("all-disks", false, "run TestAllDisksFull, on four disks of 1 GB each in memory")

// smallDisk gives a node that has not been started a separate disk in memory. A ballast file occupies part of the disk.
func (m *member) smallDisk(megabytes, taken int) (ballast string) {
	t := m.f.t
	t.Helper()
	disk := m.dir + ".disk"
	if err := os.MkdirAll(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", megabytes), "tmpfs",
		disk).CombinedOutput()
	if err != nil {
		t.Skipf("no permission to mount a file system: %v %s", err, out)
	}
	t.Cleanup(func() {
		m.kill()
		if out, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	m.dir, ballast = filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, taken<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	return ballast
}

// takeAll fills the rest of a small disk.
func (m *member) takeAll() (file string) {
	m.f.t.Helper()
	file = filepath.Join(filepath.Dir(m.dir), "rest")
	if err := os.WriteFile(file, make([]byte, 256<<20), 0o644); !errors.Is(err, syscall.ENOSPC) {
		m.f.t.Fatalf("the disk is larger than it should be: %v", err)
	}
	return file
}

// endsWith checks that the process exits with code 1 and a message that contains a text, without a stack
// trace.
func (m *member) endsWith(text string) {
	t := m.f.t
	t.Helper()
	select {
	case <-m.ended:
	case <-time.After(eventually.Limit):
		t.Fatalf("%s has not ended after %s", m.name(), eventually.Limit)
	}
	b, err := os.ReadFile(m.log())
	if err != nil {
		t.Fatal(err)
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 1 || !strings.HasPrefix(m.lastLogLine(), "ilion: ") ||
		!strings.Contains(m.lastLogLine(), text) || strings.Contains(string(b), "goroutine ") {
		t.Errorf("%s ended with code %d and output %s", m.name(), code, m.lastLogLine())
	}
}

// filler writes incompressible rows and records which rows were acknowledged.
type filler struct {
	f     *fleet
	value string
	next  int
	acked []int
}

func newFiller(f *fleet) *filler {
	f.t.Helper()
	b := make([]byte, 20_000)
	if _, err := rand.Read(b); err != nil {
		f.t.Fatal(err)
	}
	f.nodes[0].do("CREATE KEYSPACE room WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE room.t (k bigint PRIMARY KEY, v text)")
	f.settle()
	return &filler{f: f, value: hex.EncodeToString(b)}
}

// write writes one row through a node. If the write is not acknowledged, the row may or may not exist.
func (w *filler) write(m *member) error {
	c := m.dial()
	defer c.Close()
	k := w.next
	w.next++
	at := k * 7 % 10_000
	_, err := process.Query(c, dberr.Quorum, fmt.Sprintf("INSERT INTO room.t (k, v) VALUES (%d, '%d %s')", k, k,
		w.value[at:at+30_000]))
	if err == nil {
		w.acked = append(w.acked, k)
	}
	return err
}

// check checks that every acknowledged row exists and that all nodes have the same rows.
func (w *filler) check() {
	t := w.f.t
	t.Helper()
	w.f.equal("room", "t")
	there := map[int64]bool{}
	c := w.f.alive()[0].dial()
	if err := scan(c, dberr.Quorum, "room.t", func(k int64, _ []byte) { there[k] = true }); err != nil {
		t.Fatal(err)
	}
	for _, k := range w.acked {
		if !there[int64(k)] {
			t.Fatalf("acknowledged row %d is missing", k)
		}
	}
	t.Logf("%d rows were acknowledged, %d exist", len(w.acked), len(there))
}

// TestOneFullDisk checks that one full disk stops one node and causes no client errors. The node transfers its
// leaderships and exits with one log line. If the node is started on the full disk, it reports how much space is
// missing. The node starts again when the disk has enough space.
func TestOneFullDisk(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "")
	for range 4 {
		f.add()
	}
	small := f.nodes[3]
	// During the transfer of leaderships, flushes and compactions must not reduce the free space from 15% to 5%.
	ballast := small.smallDisk(384, 300)
	for _, m := range f.nodes {
		m.start()
	}
	f.settle()
	w := newFiller(f)
	c := small.dial() // the node coordinates requests until it ends
	reads := 0
	for i := 0; small.running(); i++ {
		if i == 10_000 {
			t.Fatal("its disk is not full yet")
		}
		if err := w.write(f.nodes[i%3]); err != nil {
			t.Errorf("write %d: %v", i, err)
		}
		if _, err := process.Query(c, dberr.One, "SELECT k FROM room.t WHERE k = 0"); err == nil {
			reads++
		}
	}
	t.Logf("%d writes and %d reads on the node before it ended", w.next, reads)
	small.endsWith("disk")
	for i := range 50 {
		if err := w.write(f.nodes[i%3]); err != nil {
			t.Errorf("write after the node ended: %v", err)
		}
	}
	rest := small.takeAll() // fills the space that the node freed when it ended
	for range 3 {
		if err := small.tryStart(); err == nil {
			t.Fatal("the node started on a full disk")
		}
		small.endsWith("are free")
	}
	if err := errors.Join(os.Remove(ballast), os.Remove(rest)); err != nil {
		t.Fatal(err)
	}
	small.start()
	f.settle()
	if err := w.write(small); err != nil {
		t.Errorf("write after space was freed: %v", err)
	}
	w.check()
}

// TestAllDisksFull checks that a cluster with full disks rejects writes with a clear error and continues to serve
// reads. When space is available, the cluster must accept writes again without intervention. Deletes succeed until
// almost no space is left. On disks of this size, that happens immediately.
func TestAllDisksFull(t *testing.T) {
	if !*allDisks {
		t.Skip("needs 4 GB of memory and -all-disks")
	}
	f := newFleet(t, "")
	var ballasts []string
	for range 4 {
		// A flush and a compaction between two checks of the free space must not fill the disk completely.
		ballasts = append(ballasts, f.add().smallDisk(1024, 780))
	}
	for _, m := range f.nodes {
		m.start()
	}
	f.settle()
	w := newFiller(f)
	for refused := 0; refused < 20; {
		if w.next == 10_000 {
			t.Fatal("the disks are not full yet")
		}
		err := w.write(f.nodes[w.next%4])
		if err == nil {
			continue
		}
		refused++
		if !strings.Contains(err.Error(), "disk almost full") {
			t.Errorf("rejected with: %v", err)
		}
	}
	for _, m := range f.nodes {
		if !m.running() {
			t.Fatalf("%s has ended: %s", m.name(), m.lastLogLine())
		}
		for _, text := range []string{"SELECT k FROM room.t WHERE k = 1", "DELETE FROM room.t WHERE k = -1"} {
			_, err := process.Query(m.dial(), dberr.Quorum, text)
			if err != nil && !(strings.HasPrefix(text, "DELETE") &&
				strings.Contains(err.Error(), "deletes are rejected")) {
				t.Errorf("%s at %s: %v", text, m.name(), err)
			}
		}
	}
	for _, b := range ballasts {
		if err := os.Remove(b); err != nil {
			t.Fatal(err)
		}
	}
	f.until("writes are accepted again", eventually.Limit, func() string {
		if err := w.write(f.nodes[w.next%4]); err != nil {
			return err.Error()
		}
		return ""
	})
	w.check()
}
