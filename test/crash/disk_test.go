// SPDX-License-Identifier: Apache-2.0

//go:build integration

package crash

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// smallDisk mounts a file system in memory, and skips the test if that is not permitted.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", megabytes), "tmpfs",
		dir).CombinedOutput(); err != nil {
		t.Skipf("no permission to mount a file system: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
}

// noise returns incompressible text of the given size.
func noise(t *testing.T, size int) string {
	t.Helper()
	b := make([]byte, size/2)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(b)
}

// fill creates a file of the given size to use up disk space.
func fill(t *testing.T, name string, size int64) {
	t.Helper()
	if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil && size < 1<<30 {
		t.Fatal(err)
	}
}

// tables creates the tables for the disk tests.
func tables(t *testing.T, c *rawclient.Conn) {
	t.Helper()
	process.Do(t, c, "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE crash.f (k int PRIMARY KEY, v text)", "CREATE TABLE crash.o (k int PRIMARY KEY)")
}

// succeed runs a statement until it succeeds.
func succeed(t *testing.T, c *rawclient.Conn, statement string) {
	t.Helper()
	eventually.None(t, statement, eventually.Limit, func() string {
		if _, err := c.Query(statement); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestFullDisk checks that writers that fill a disk within seconds get only a clear error. Deletes, reads, and
// TRUNCATE must work. Writes must be accepted again when space is available, and no acknowledged write may be lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 100)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast, 40<<20)
	s := process.Start(t, filepath.Join(disk, "data"))
	c := s.Dial(t)
	defer c.Close()
	tables(t, c)
	value := noise(t, 40_000)
	var rows [4]int
	var wg sync.WaitGroup
	for w := range rows {
		c := s.Dial(t)
		wg.Go(func() {
			defer c.Close()
			for {
				_, err := c.Query(fmt.Sprintf("INSERT INTO crash.f (k, v) VALUES (%d, '%s')", rows[w]*len(rows)+w,
					value[rows[w]%5000:]))
				if err != nil {
					if !strings.HasSuffix(err.Error(),
						"0x1500: disk almost full: writes are rejected; reads and deletes are allowed") {
						t.Errorf("rejected with %.200s", err.Error()[max(0, len(err.Error())-200):])
					}
					return
				}
				rows[w]++
			}
		})
	}
	wg.Wait()
	process.Do(t, c, "SELECT k FROM crash.f WHERE k = 1", "DELETE FROM crash.o WHERE k = 1",
		"DELETE v FROM crash.f WHERE k = 1")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	succeed(t, c, "INSERT INTO crash.o (k) VALUES (1)")
	s.Kill()
	s = process.Start(t, filepath.Join(disk, "data"))
	c = s.Dial(t)
	defer c.Close()
	if r, err := c.Query("SELECT k FROM crash.f"); err != nil || r.RowCount < rows[0]+rows[1]+rows[2]+rows[3] {
		t.Errorf("%d rows of %v (%v)", r.RowCount, rows, err)
	}
	for i := 0; ; i++ {
		if _, err := c.Query(fmt.Sprintf("INSERT INTO crash.f (k, v) VALUES (%d, '%s')", -i,
			value[i%5000:])); err != nil {
			break
		}
	}
	process.Do(t, c, "TRUNCATE crash.f")
	succeed(t, c, "INSERT INTO crash.o (k) VALUES (2)")
	if !s.Running() || strings.Contains(s.Stderr(), "goroutine") {
		t.Error(s.Stderr())
	}
}

// TestBrokenDisk checks that a process that cannot write its log exits with code 1 and one line that states the
// reason. The process must not start without free space. Its acknowledged writes must exist when the disk works again.
func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 100)
	ballast := filepath.Join(disk, "ballast")
	s := process.Start(t, filepath.Join(disk, "data"))
	c := s.Dial(t)
	defer c.Close()
	tables(t, c)
	process.Do(t, c, "INSERT INTO crash.o (k) VALUES (1)")
	fill(t, ballast, 1<<30) // use up all free space before the server checks the free space again
	value := noise(t, 100_000)
	for i := range 20 {
		// The write is rejected or gets no response.
		_, _ = c.Query(fmt.Sprintf("INSERT INTO crash.f (k, v) VALUES (%d, '%s')", i, value[i%5000:]))
		if !s.Running() {
			break
		}
	}
	s.Wait(t, eventually.Limit)
	lines := strings.Split(strings.TrimSpace(s.Stderr()), "\n")
	last := lines[len(lines)-1]
	if code := s.Cmd.ProcessState.ExitCode(); code != 1 ||
		!strings.HasPrefix(last, "ilion: the store has stopped: ") ||
		!strings.HasSuffix(last, "no space left on device") || strings.Contains(s.Stderr(), "goroutine") {
		t.Errorf("the process ended with code %d and output %s", code, s.Stderr())
	}
	refused(t, filepath.Join(disk, "data"), "are required to start")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s = process.Start(t, filepath.Join(disk, "data"))
	c = s.Dial(t)
	defer c.Close()
	if r, err := c.Query("SELECT k FROM crash.o"); err != nil || r.RowCount != 1 {
		t.Errorf("acknowledged rows: %v (%v)", r, err)
	}
}

// TestReadOnlyDisk checks that a read-only data directory is rejected with one line.
func TestReadOnlyDisk(t *testing.T) {
	disk := smallDisk(t, 100)
	s := process.Start(t, filepath.Join(disk, "data"))
	s.Stop(t)
	if out, err := exec.Command("mount", "-o", "remount,ro", disk).CombinedOutput(); err != nil {
		t.Skipf("%v %s", err, out)
	}
	refused(t, filepath.Join(disk, "data"), "write permission denied")
}

// refused checks that the process does not start on a directory. The process must exit with code 1 and one line that
// contains a text.
func refused(t *testing.T, dir, text string) {
	t.Helper()
	s, err := process.TryStart(t, dir)
	if err == nil {
		t.Errorf("the process started although it should report %s", text)
		s.Kill()
		return
	}
	out := strings.TrimSpace(s.Stderr())
	if code := s.Cmd.ProcessState.ExitCode(); code != 1 || strings.Contains(out, "\n") ||
		!strings.HasPrefix(out, "ilion: ") || !strings.Contains(out, text) {
		t.Errorf("code %d: %s; want one line with %q", code, out, text)
	}
}

// TestDamage checks that a process with damaged files exits with code 1 and serves no damaged data. The process must
// report the damage in one line, with the file's name if it is known.
func TestDamage(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "data")
	s := process.Start(t, origin)
	c := s.Dial(t)
	tables(t, c)
	value := noise(t, 10_000)
	for i := range 100 {
		process.Do(t, c, fmt.Sprintf("INSERT INTO crash.f (k, v) VALUES (%d, '%s')", i, value[i:]))
	}
	c.Close()
	s.Stop(t) // writes an sstable
	s = process.Start(t, origin)
	c = s.Dial(t)
	for i := range 100 {
		process.Do(t, c, fmt.Sprintf("INSERT INTO crash.f (k, v) VALUES (%d, '%s')", i, value[i:]))
	}
	c.Close()
	s.Kill() // leaves a log
	damaged := func(pattern string, change func(b []byte) []byte) (dir, name string) {
		t.Helper()
		dir = filepath.Join(t.TempDir(), "data")
		process.CopyDir(t, origin, dir)
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		if strings.HasPrefix(pattern, "MANIFEST-") {
			names = names[len(names)-1:] // skip the previous file, which the process does not read
		}
		for _, n := range names { // the largest file
			if a, err := os.Stat(n); err == nil {
				if b, err := os.Stat(name); err != nil || a.Size() > b.Size() {
					name = n
				}
			}
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, change(b), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir, filepath.Base(name)
	}
	flip := func(at float64) func(b []byte) []byte {
		return func(b []byte) []byte {
			b[int(float64(len(b)-1)*at)] ^= 0x20
			return b
		}
	}
	dir, _ := damaged("ilion.id", flip(0.1))
	refused(t, dir, "the identity file is damaged")
	dir, _ = damaged("ilion.id", func([]byte) []byte { return nil })
	refused(t, dir, "the identity file is damaged")
	dir, name := damaged("*.log", flip(0.5))
	refused(t, dir, name)
	dir, _ = damaged("MANIFEST-*", flip(0.3))
	refused(t, dir, "stored data is damaged")
	dir, _ = damaged("MANIFEST-*", func([]byte) []byte { return nil })
	refused(t, dir, "stored data is damaged")

	dir, name = damaged("*.sst", flip(0.4))
	s, err := process.TryStart(t, dir)
	if err == nil {
		c := s.Dial(t)
		if r, err := c.Query("SELECT * FROM crash.f"); err == nil {
			t.Errorf("%d rows were served from a damaged table", r.RowCount)
		}
		c.Close()
		s.Wait(t, eventually.Limit)
	}
	lines := strings.Split(strings.TrimSpace(s.Stderr()), "\n")
	if last := lines[len(lines)-1]; s.Cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(last, "ilion: ") ||
		!strings.Contains(last, name) || strings.Contains(s.Stderr(), "goroutine") {
		t.Errorf("code %d: %s", s.Cmd.ProcessState.ExitCode(), s.Stderr())
	}
}
