// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/restclient"
)

// planted is part of all names, keys, and values that the tests of encryption write.
const planted = "plantedsecret"

// forms returns planted in the encodings in which a file may contain it.
func forms() [][]byte {
	var little, big []byte
	for _, c := range utf16.Encode([]rune(planted)) {
		little, big = append(little, byte(c), byte(c>>8)), append(big, byte(c>>8), byte(c))
	}
	return [][]byte{[]byte(planted), []byte(strings.ToUpper(planted)), little, big, fmt.Appendf(nil, "%x", planted)}
}

// findPlanted returns the files below a directory whose contents or names contain planted.
func findPlanted(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // removed by the running process
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		for _, form := range forms() {
			if bytes.Contains(b, form) || strings.Contains(d.Name(), planted) {
				found = append(found, path)
				break
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// absent checks that no file below the directories contains planted.
func absent(t *testing.T, when string, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if found := findPlanted(t, dir); len(found) > 0 {
			t.Errorf("%s: planted values in %v", when, found)
		}
	}
}

// storeKey creates a store key and returns its file and fingerprint.
func storeKey(t *testing.T, name string) (file, fingerprint string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name)
	k, err := encryption.MakeKey(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, k.Fingerprint()
}

// tool runs a command of the binary, which must succeed, and returns its output.
func tool(t *testing.T, args ...string) string {
	t.Helper()
	out, err := process.Command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ilion %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// configFile writes a configuration file.
func configFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ilion.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// plant writes rows from first until before end, which are large enough to fill several memtables.
func plant(t *testing.T, c *rawclient.Conn, first, end int) {
	t.Helper()
	filler := strings.Repeat("x", 4000)
	for i := first; i < end; i++ {
		_, err := process.Query(c, dberr.One, fmt.Sprintf(
			"INSERT INTO %[1]s.t (k, c, v) VALUES ('%[1]s-key-%[2]d', '%[1]s-%[2]d', '%[1]s %[3]s')", planted, i, filler))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// count checks the number of rows.
func count(t *testing.T, c *rawclient.Conn, want int) {
	t.Helper()
	r, err := process.Query(c, dberr.One, "SELECT k FROM "+planted+".t")
	if err != nil || r.RowCount != want {
		t.Fatalf("%+v, want %d rows (%v)", r, want, err)
	}
}

// tables creates a table with an index whose names are planted.
func tables(t *testing.T, c *rawclient.Conn, replicas int) {
	t.Helper()
	process.Do(t, c, fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': %d}", planted, replicas),
		"CREATE TABLE "+planted+".t (k text, c text, v text, PRIMARY KEY (k, c))",
		"CREATE INDEX "+planted+"_index ON "+planted+".t (c)")
}

// TestEncryptedFiles writes rows, items, audit log entries, a checkpoint, and a backup on an encrypted node, and kills
// the node. No file may contain the names, keys, or values, even after the logs have been reused. The backup and the
// checkpoint must be readable.
func TestEncryptedFiles(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	plain := filepath.Join(base, "plain")
	s := process.Start(t, plain)
	c := s.Dial(t)
	tables(t, c, 1)
	plant(t, c, 0, 10)
	s.Kill()
	if len(findPlanted(t, plain)) == 0 {
		t.Fatal("the search finds nothing in a directory that is not encrypted")
	}
	key, fingerprint := storeKey(t, "key")
	rest := freeAddress(t)
	config := configFile(t, "memory: {budget: 64MiB, memtable: 1MiB}\naudit_logging_options: {enabled: true}\nrest:\n"+
		"  address: "+rest+"\n  primary_key: "+restclient.Key+"\nstorage: {encryption: {key_file: "+key+"}}\n")
	dir := filepath.Join(base, "data")
	start := func() *process.Server {
		s := process.Start(t, dir, "--config", config, "--rest", rest)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(s.Stderr())
			}
		})
		return s
	}
	s = start()
	c = s.Dial(t)
	tables(t, c, 1)
	items(t, rest)
	const rows = 3000 // 12 MB
	plant(t, c, 0, rows/2)
	absent(t, "running", dir)
	s.Kill()
	absent(t, "killed", dir)
	s = start()
	c = s.Dial(t)
	plant(t, c, rows/2, rows)
	count(t, c, rows)
	absent(t, "restarted", dir)

	repository, backupKey := filepath.Join(base, "backups"), filepath.Join(base, "backup.key")
	tool(t, "backup", "key", backupKey)
	tool(t, "backup", "--to", repository, "--key-file", backupKey, "--data", dir)
	checkpoint := takeCheckpoint(t, dir)
	absent(t, "after a backup and a checkpoint", dir, repository, checkpoint)
	status := tool(t, "encryption", "status", "--data", dir)
	if !strings.Contains(status, fingerprint) || !strings.Contains(status, "100.0 %") {
		t.Errorf("status: %s", status)
	}
	audit := tool(t, "encryption", "decrypt", "--encryption-key-file", key, "--data", dir,
		filepath.Join(dir, "audit", "audit.log"))
	if strings.Count(audit, "INSERT INTO") < rows {
		t.Errorf("the decrypted audit log has %d bytes", len(audit))
	}
	s.Kill()
	copied := process.Start(t, checkpoint, "--config", config, "--rest", "off")
	count(t, copied.Dial(t), rows)
	copied.Kill()
	absent(t, "after the checkpoint was used", checkpoint)

	other := filepath.Join(base, "restored")
	s = process.Start(t, other, "--config", config, "--rest", "off")
	tool(t, "restore", "--from", repository, "--key-file", backupKey, "--data", other)
	count(t, s.Dial(t), rows)
	s.Kill()
	absent(t, "restored", other)
}

// items writes items through the REST API.
func items(t *testing.T, address string) {
	t.Helper()
	c := restclient.New(address, time.Minute)
	defer c.Close()
	database := planted + "items"
	for _, r := range []*restclient.Request{
		{Method: http.MethodPost, Path: "dbs", Body: map[string]any{"id": database}},
		{Method: http.MethodPost, Path: "dbs/" + database + "/colls", Body: map[string]any{"id": planted,
			"partitionKey": map[string]any{"paths": []string{"/p"}, "kind": "Hash", "version": 2}}},
		{Method: http.MethodPost, Path: "dbs/" + database + "/colls/" + planted + "/docs", Key: planted,
			Body: map[string]any{"id": planted, "p": planted, planted: strings.Repeat(planted, 1000)}},
	} {
		var text []byte
		if status, _, err := c.Ask(t.Context(), r, &text); err != nil || status != http.StatusCreated {
			t.Fatalf("%s: status %d, %v: %s", r.Path, status, err, text)
		}
	}
}

// takeCheckpoint requests a checkpoint at the admin socket of a node and returns its directory.
func takeCheckpoint(t *testing.T, dir string) string {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "admin.sock"))
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	resp, err := client.Post("http://localhost/checkpoint", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("checkpoint: status %d, %v: %s", resp.StatusCode, err, b.String())
	}
	return strings.TrimSpace(b.String())
}

// TestEncryptionKeys rotates the keys of a node under load, and then starts the node with the new, the old, a wrong,
// and no key, and with key commands that hang or print no key.
func TestEncryptionKeys(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first, firstPrint := storeKey(t, "first")
	second, secondPrint := storeKey(t, "second")
	third, thirdPrint := storeKey(t, "third")
	current := filepath.Join(t.TempDir(), "current")
	use := func(key string) {
		t.Helper()
		b, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(current, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	use(first)
	config := configFile(t, "memory: {budget: 64MiB, memtable: 1MiB}\n")
	args := []string{"--config", config, "--encryption-key-file", current}
	s := process.Start(t, dir, args...)
	c := s.Dial(t)
	tables(t, c, 1)
	written, stop, done := atomic.Int64{}, make(chan struct{}), make(chan error, 1)
	writer := s.Dial(t)
	go func() {
		filler := strings.Repeat("x", 2000)
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			n := written.Load()
			if _, err := process.Query(writer, dberr.One, fmt.Sprintf(
				"INSERT INTO %s.t (k, c, v) VALUES ('%d', '', '%s')", planted, n, filler)); err != nil {
				done <- err
				return
			}
			written.Add(1)
		}
	}()
	progress := func() {
		t.Helper()
		from := written.Load()
		eventually.True(t, "progress of the writer", func() bool { return written.Load() > from+500 || len(done) > 0 })
	}
	progress()
	for range 3 { // data keys
		out := tool(t, "encryption", "rotate", "--data", dir)
		if !strings.Contains(out, firstPrint+" has not changed") {
			t.Errorf("rotate: %s", out)
		}
		progress()
		tool(t, "encryption", "rewrite", "--data", dir)
	}
	use(second)
	out := tool(t, "encryption", "rotate", "--data", dir)
	if !strings.Contains(out, secondPrint+" replaced "+firstPrint) {
		t.Errorf("rotate: %s", out)
	}
	progress()
	tool(t, "encryption", "rewrite", "--data", dir)
	use(first)
	if out, err := process.Command(t, "encryption", "rotate", "--data", dir).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), firstPrint) || !strings.Contains(string(out), "is an old key") {
		t.Errorf("rotate to the old key: %s", out)
	}
	progress()
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.Kill()

	refuses := func(name string, args []string, texts ...string) {
		t.Helper()
		before := snapshotOf(t, dir)
		s := process.Launch(t, append([]string{"start", "--data", dir, "--cql", "127.0.0.1:0", "--http", "off",
			"--log-level", "warn"}, args...)...)
		s.Refuses(t, 1, texts...)
		if after := snapshotOf(t, dir); before != after {
			t.Errorf("%s: the directory has changed", name)
		}
	}
	file := func(name string) []string { return []string{"--encryption-key-file", name} }
	command := func(text string) []string { return []string{"--encryption-key-command", text} }
	refuses("old key", file(first), firstPrint, secondPrint, "is an old key")
	refuses("wrong key", file(third), thirdPrint, secondPrint, "wrong store key")
	refuses("no key", nil, secondPrint, "no key is configured")
	refuses("missing file", file(first+"-missing"), secondPrint, "no such file")
	refuses("garbage", command("echo garbage"), secondPrint, "expected 64 hexadecimal digits")
	refuses("endless output", command("yes garbage"), secondPrint, "did not end within 10s")
	refuses("a command that hangs", command("sleep 1000"), secondPrint, "did not end within 10s")
	refuses("a command that fails", command("false"), secondPrint, "exit status 1")
	refuses("no command", command("/no/such/program"), secondPrint, "no such file")
	s = process.Start(t, dir, append([]string{"--config", config}, command("cat "+second)...)...)
	count(t, s.Dial(t), int(written.Load()))
	s.Kill()
	s = process.Start(t, dir, append([]string{"--config", config, "--encryption-old-key-file", second},
		file(third)...)...)
	count(t, s.Dial(t), int(written.Load()))
	s.Kill()
	refuses("the key before the new one", file(second), secondPrint, thirdPrint, "is an old key")
	s = process.Start(t, dir, append([]string{"--config", config}, file(third)...)...)
	count(t, s.Dial(t), int(written.Load()))
	absent(t, "after all rotations", dir)
	if _, code := s.Stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// snapshotOf returns the names, sizes, and times of the files in a directory.
func snapshotOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() != "LOCK" && info.Mode().IsRegular() {
			fmt.Fprintln(&out, e.Name(), info.Size(), info.ModTime())
		}
	}
	return out.String()
}

// TestEncryptedNode runs a cluster of four nodes, of which one is encrypted. A second node is then switched to
// encryption, rewritten, and switched back. Reads and writes continue.
func TestEncryptedNode(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	key, _ := storeKey(t, "key")
	var addresses []string
	var nodes []*process.Server
	dir := func(i int) string { return filepath.Join(base, fmt.Sprint("node", i)) }
	for i := range 4 {
		addresses = append(addresses, freeAddress(t))
		args := []string{"--internal", addresses[i], "--bootstrap"}
		if i > 0 {
			args = []string{"--internal", addresses[i], "--join", addresses[0]}
		}
		if i == 3 {
			args = append(args, "--encryption-key-file", key)
		}
		nodes = append(nodes, process.Start(t, dir(i), args...))
	}
	t.Cleanup(func() {
		if t.Failed() {
			for i, n := range nodes {
				t.Logf("node %d: %s", i, n.Stderr())
			}
		}
	})
	c := nodes[0].Dial(t)
	tables(t, c, 3)
	whole(t, nodes)
	plant(t, c, 0, 200)
	nodes[3].Kill()
	absent(t, "the encrypted node was killed", dir(3))
	if len(findPlanted(t, dir(1))) == 0 {
		t.Error("the other nodes contain nothing")
	}
	restart := func(i int, args ...string) {
		t.Helper()
		nodes[i] = process.Start(t, dir(i), append([]string{"--internal", addresses[i]}, args...)...)
		whole(t, nodes)
	}
	plant(t, c, 200, 300)
	restart(3, "--encryption-key-file", key)
	if _, code := nodes[1].Stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	restart(1, "--encryption-key-file", key)
	plant(t, c, 300, 400)
	tool(t, "encryption", "rewrite", "--data", dir(1))
	if _, code := nodes[1].Stop(t); code != 0 { // a restart replaces the manifests
		t.Errorf("exit code %d", code)
	}
	restart(1, "--encryption-key-file", key)
	tool(t, "encryption", "rewrite", "--data", dir(1))
	absent(t, "the second node was switched to encryption", dir(1), dir(3))

	off := configFile(t, "storage: {encryption: {decrypt: true, key_file: "+key+"}}\n")
	for range 3 { // switch off, rewrite the rest, and remove the registry
		if _, code := nodes[1].Stop(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
		restart(1, "--config", off)
		if _, err := os.Stat(filepath.Join(dir(1), encryption.RegistryFile)); err != nil {
			break
		}
		tool(t, "encryption", "rewrite", "--data", dir(1))
	}
	nodes[1].Kill()
	restart(1)
	for i, n := range nodes {
		d := n.Dial(t)
		count(t, d, 400)
		d.Close()
		if i == 3 {
			var s encryption.Status
			if err := json.Unmarshal([]byte(get(t, n, "/encryption")), &s); err != nil || s.Share != 1 {
				t.Errorf("status: %+v, %v", s, err)
			}
		}
	}
	absent(t, "at the end", dir(3))
}

// get returns a page of a node.
func get(t *testing.T, s *process.Server, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+s.HTTP+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
