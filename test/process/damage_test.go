// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

var everyByte = flag.Bool("every-byte", false, "flip a bit in each byte of small files in TestFlippedBits, instead of a few per file")

// member is the only node of a cluster. member holds the state of the data directory at two times.
type member struct {
	t      *testing.T
	dir    string // location of the data
	config string
	states []state
}

type state struct {
	name string
	rows int // number of acknowledged rows
	// least is the minimum number of rows if a log is damaged. Flipped bits in the last three synced writes cannot be
	// distinguished from an incomplete write after a crash.
	least int
	show  string // identity and schema
}

func (m *member) start(dir string) *process.Server {
	return process.Launch(m.t, "start", "--config", m.config, "--data", dir, "--cql", "127.0.0.1:0", "--http", "off",
		"--log-level", "error", "--internal", "127.0.0.1:0", "--bootstrap", "--join-secret-file",
		filepath.Join(dir, "join-secret"))
}

var readyAt = regexp.MustCompile(`CQL on ([0-9.:]+), `)

// ready waits until a node serves requests and returns its address. ready returns "" if the node has ended.
func (m *member) ready(s *process.Server) (at string) {
	_, missing := eventually.Try(eventually.Limit, func() string {
		if found := readyAt.FindStringSubmatch(s.Stderr()); found != nil {
			at = found[1]
		} else if s.Running() {
			return "the node has neither started nor ended"
		}
		return ""
	})
	if missing != "" {
		m.t.Errorf("%s: %s", missing, s.Stderr())
		s.Kill()
	}
	return at
}

// value returns the value of row k. Every ninth value is so large that it gets a separate file.
func value(k int) string {
	random := rand.NewChaCha8([32]byte{byte(k), byte(k >> 8)})
	b := make([]byte, 1000+k%9/8*20_000)
	for i := range b {
		b[i] = 'a' + byte(random.Uint64()%26)
	}
	return string(b)
}

// cells returns the first n rows in the encoding of a result.
func cells(n int) (out []byte) {
	for k := range n {
		v := value(k)
		out = binary.BigEndian.AppendUint32(out, 4)
		out = binary.BigEndian.AppendUint32(out, uint32(k))
		out = binary.BigEndian.AppendUint32(out, uint32(len(v)))
		out = append(out, v...)
	}
	return out
}

// look reads a node's identity, schema, and rows. The rows must be the first rows that were written. It returns the
// number of rows.
func look(at string) (show string, rows int, err error) {
	c, err := rawclient.Dial(context.Background(), at, rawclient.Options{})
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	for _, q := range []string{"SELECT host_id, cluster_name FROM system.local", "DESCRIBE SCHEMA"} {
		r, err := c.Query(q)
		if err != nil {
			return "", 0, err
		}
		show += string(r.Cells)
	}
	r, err := process.Query(c, dberr.Quorum, "SELECT k, v FROM ks.t WHERE p = 1")
	if err != nil {
		return "", 0, err
	}
	if !bytes.Equal(r.Cells, cells(r.RowCount)) {
		show += " and different rows than written"
	}
	return show, r.RowCount, nil
}

// keep copies the node's directory.
func (m *member) keep(name string, rows int, show string) {
	m.states = append(m.states, state{name, rows, rows - 3, show})
	process.CopyDir(m.t, m.live(), m.of(name))
}

func (m *member) live() string { return filepath.Join(m.dir, "live") }

func (m *member) of(name string) string { return filepath.Join(m.dir, name) }

// newMember starts a node, writes to it, and stops it once with SIGTERM and once with SIGKILL.
func newMember(t *testing.T) *member {
	m := &member{t: t, dir: t.TempDir()}
	m.config = filepath.Join(m.dir, "ilion.yaml")
	if err := os.WriteFile(m.config, []byte("audit_logging_options: {enabled: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(from, to int, stop func(*process.Server)) string {
		s := m.start(m.live())
		c, err := rawclient.Dial(t.Context(), m.ready(s), rawclient.Options{})
		if err != nil {
			t.Fatal(err, s.Stderr())
		}
		defer c.Close()
		if from == 0 {
			process.Do(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
				"CREATE TABLE ks.t (p int, k int, v text, PRIMARY KEY (p, k))")
		}
		for k := from; k < to; k++ {
			process.Do(t, c, fmt.Sprintf("INSERT INTO ks.t (p, k, v) VALUES (1, %d, '%s')", k, value(k)))
		}
		show, rows, err := look(m.ready(s))
		if err != nil || rows != to {
			t.Fatalf("%d of %d rows, %v", rows, to, err)
		}
		stop(s)
		return show
	}
	orderly := func(s *process.Server) { s.Stop(t) }
	run(0, 30, (*process.Server).Kill)
	m.keep("stopped", 60, run(30, 60, orderly))
	m.keep("killed", 90, run(60, 90, (*process.Server).Kill))
	return m
}

// flips returns the positions in a file at which the test flips a bit.
func flips(size int) (at []int) {
	n := min(size, 2)
	if size > 32<<10 {
		n = 5
	}
	switch {
	case *everyByte && size <= 4<<10:
		n = size
	case *everyByte:
		n = 300
	}
	for i := range n {
		at = append(at, (2*i+1)*size/(2*n))
	}
	return at
}

// TestFlippedBits flips a bit of any file in a node's directory. The node must either have all its data, or exit with
// one line that names the file. It may exit at the start or later. It must not delete damaged files.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	type flip struct {
		state
		name string
		at   int
	}
	todo := make(chan flip)
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for f := range todo {
				m.flip(&f.state, f.name, f.at, filepath.Join(m.dir, fmt.Sprint("flipped", i)))
			}
		})
	}
	for _, s := range m.states {
		for name, size := range m.files(m.of(s.name)) {
			for _, at := range flips(size) {
				todo <- flip{s, name, at}
			}
		}
	}
	close(todo)
	wg.Wait()
}

// files returns the files of a directory with their sizes.
func (m *member) files(dir string) map[string]int {
	files := map[string]int{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			name, err = filepath.Rel(dir, name)
			files[name] = int(info.Size())
		}
		return err
	})
	if err != nil {
		m.t.Error(err)
	}
	return files
}

// flip starts a node on a copy of a directory state with one flipped bit.
func (m *member) flip(was *state, name string, at int, dir string) {
	process.CopyDir(m.t, m.of(was.name), dir)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err == nil {
		b[at] ^= 1 << (at % 8)
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		m.t.Error(err)
		return
	}
	s := m.start(dir)
	defer s.Kill()
	what := fmt.Sprintf("%s, %s, byte %d of %d", was.name, name, at, len(b))
	address := m.ready(s)
	if address != "" {
		show, rows, err := look(address)
		if err == nil {
			least := was.rows
			if strings.HasSuffix(name, ".log") {
				least = was.least
			}
			if show != was.show || rows < least || rows > was.rows {
				m.t.Errorf("%s: %d rows of %d, %d; %q, was %q", what, rows, least, was.rows, show, was.show)
			}
			return
		}
		s.Wait(m.t, eventually.Limit)
	}
	lines := strings.Split(strings.TrimSpace(s.Stderr()), "\n")
	last := lines[len(lines)-1]
	named := strings.Contains(last, filepath.Base(name))
	if strings.HasSuffix(name, ".log") { // the node detects a lost tail, but not the file that contained the tail
		named = named || strings.Contains(last, dir)
	}
	if !strings.HasPrefix(last, "ilion: ") || !named || strings.Contains(s.Stderr(), "goroutine ") {
		m.t.Errorf("%s: %s", what, s.Stderr())
	}
	if _, err := os.Stat(path); err != nil && !strings.HasSuffix(name, ".log") {
		m.t.Errorf("%s: %v", what, err)
	}
}

// TestUnknownFilesStay checks that a node does not delete unknown files in any of its directories.
func TestUnknownFilesStay(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	dir := m.of("stopped")
	var put []string
	for _, below := range []string{"", "raft", "snapshots", "audit", "backup"} {
		for _, name := range []string{"notes.txt", ".hidden", "000001.sst.bak", "ilion.id.old", "join-secret.1", "core",
			"audit.log.99", "1.out.txt", "x.in", "MANIFEST", "marker.other.000001.x"} {
			put = append(put, filepath.Join(dir, below, name))
		}
	}
	for _, name := range put {
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(name), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(dir, "snapshots", "7.out") // a file that a killed process may leave
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := m.start(dir)
		if show, rows, err := look(m.ready(s)); err != nil || rows != 60 || show != m.states[0].show {
			t.Errorf("%d rows, %v: %q; %s", rows, err, show, s.Stderr())
		}
		s.Stop(t)
	}
	for _, name := range put {
		if b, err := os.ReadFile(name); err != nil || string(b) != name {
			t.Errorf("%q, %v", b, err)
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the remains of a snapshot still exist")
	}
}
