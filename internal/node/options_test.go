// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
)

// TestMain proves D2 for every test here: a closed node leaves no goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T, text string) (Options, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ilion.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var o Options
	return o, LoadOptions(path, &o)
}

// TestLoadOptions proves how a configuration file is read, and what is said about mistakes in it.
func TestLoadOptions(t *testing.T) {
	got, err := load(t, `
data: /d
cql: 0.0.0.0:9042
memory:
  budget: 8GiB
  memtable: 1048576
limits:
  read_timeout: 500ms
  result_bytes: 64MiB
auth:
  users:
    app: $2a$10$x
storage:
  min_free_disk_percent: 3
`)
	want := Options{
		Data: "/d", CQL: "0.0.0.0:9042", Memory: MemoryOptions{Budget: 8 << 30, Memtable: 1 << 20},
		Limits: LimitOptions{ReadTimeout: 500 * time.Millisecond, ResultBytes: 64 << 20},
		Auth:   AuthOptions{Users: map[string]string{"app": "$2a$10$x"}}, Storage: StorageOptions{MinFreeDisk: 3},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Options{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := load(t, "# nothing\n"); err != nil ||
		!cmp.Equal(got, Options{}, cmpopts.IgnoreUnexported(Options{})) {
		t.Errorf("an empty file: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"nosuch: 1\n":                     `line 1: unknown key "nosuch"`,
		"cql: a\nmemory:\n  cache: 1\n":   `line 3: unknown key "cache"`,
		"memory:\n  budget: lots\n":       `line 2: "lots" is not a size: write a number and one of B, KiB, MiB, GiB, TiB`,
		"limits:\n  read_timeout: soon\n": "line 2: cannot unmarshal !!str `soon` into time.Duration",
		"limits:\n  connections: many\n":  "line 2: cannot unmarshal !!str `many` into int",
		"cql: [\n":                        "line 1: did not find expected node content",
		"data: a\ndata: b\n":              `mapping key "data" already defined at line 1`,
		"data: a\n---\ndata: b\n":         "more than one document",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestValidate proves which options contradict themselves.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`commit "never" is unknown: use batch or periodic`:        func(o *Options) { o.Commit = "never" },
		"initial_partitions 1025 is out of range: use 1 to 1024":  func(o *Options) { o.InitialPartitions = 1025 },
		"initial_partitions -1 is out of range: use 1 to 1024":    func(o *Options) { o.InitialPartitions = -1 },
		"memory.budget 1048576 is too small: give at least 64MiB": func(o *Options) { o.Memory.Budget = 1 << 20 },
		"memory.block_cache and four times memory.memtable": func(o *Options) {
			o.Memory.BlockCache = o.Memory.Budget
		},
		"limits.frame_bytes 1 is out of range: use 2097152 to 2684": func(o *Options) { o.Limits.FrameBytes = 1 },
		"limits.result_bytes 268435456 is out of range: it must be": func(o *Options) {
			o.Limits.ResultBytes = 256 << 20
		},
		"limits.connections -1 is out of range: it must be positive": func(o *Options) { o.Limits.Connections = -1 },
		"limits.write_timeout -1s is out of range: it must be posi": func(o *Options) {
			o.Limits.WriteTimeout = -time.Second
		},
		"storage.sweep_keys_per_second 99 is out of range: use 100 ": func(o *Options) { o.Storage.SweepKeys = 99 },
		"storage.min_free_disk_percent 101 is out of range: use 1 ":  func(o *Options) { o.Storage.MinFreeDisk = 101 },
		`cql address "9042" is not host:port`:                        func(o *Options) { o.CQL = "9042" },
		`http address "on" is not host:port`:                         func(o *Options) { o.HTTP = "on" },
	} {
		o := Options{}.withDefaults()
		change(&o)
		if err := o.validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := (Options{}).withDefaults().validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	small := Options{Memory: MemoryOptions{Budget: 64 << 20}}.withDefaults()
	if err := small.validate(); err != nil {
		t.Errorf("the least memory: %v", err)
	}
}

// TestParseBytes proves which sizes are understood.
func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "17": 17, "17B": 17, "512KiB": 512 << 10, "64 MiB": 64 << 20,
		"4GiB": 4 << 30, "2TiB": 2 << 40} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "1kb", "1GB", "0x10", "9999999TiB", "1 KiB KiB"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

// TestConfigurationIsDocumented proves that docs/configuration.md has a row for every key of the configuration file.
func TestConfigurationIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("options.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile("growth.go")
	if err != nil {
		t.Fatal(err)
	}
	surface, err := os.ReadFile("restkeys.go")
	if err != nil {
		t.Fatal(err)
	}
	source = append(append(source, more...), surface...)
	tag := regexp.MustCompile("`yaml:\"([a-z_]+)\"`")
	keys := tag.FindAllSubmatch(source, -1)
	if len(keys) < 25 {
		t.Fatalf("found only %d keys", len(keys))
	}
	for _, key := range keys {
		if !regexp.MustCompile("`([a-z]+\\.)*"+string(key[1])+"`").Match(page) && string(key[1]) != "memory" &&
			string(key[1]) != "limits" &&
			string(key[1]) != "storage" && string(key[1]) != "auth" && string(key[1]) != "tls" &&
			string(key[1]) != "cluster" && string(key[1]) != "splits" &&
			string(key[1]) != "merges" && string(key[1]) != "rest" {
			t.Errorf("%s is not documented", key[1])
		}
	}
}

// TestDescriptorsAreShared proves that clients cannot take the files that the store needs: with any limit there are
// some for tables, and what is left is not promised twice.
func TestDescriptorsAreShared(t *testing.T) {
	for _, c := range []struct{ limit, clients, tables, connections int }{
		{1 << 20, 20_000, 1000, 20_000},
		{20_000, 20_000, 1000, 17_744},
		{1024, 20_000, 128, 512},
		{256, 20_000, 32, 1},
		{20_000, 10, 1000, 10},
	} {
		tables, connections := shareDescriptors(c.limit, c.clients)
		if tables != c.tables || connections != c.connections {
			t.Errorf("of %d: %d tables, %d connections, want %d and %d", c.limit, tables, connections, c.tables,
				c.connections)
		}
	}
}
