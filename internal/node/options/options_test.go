// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T, text string) (Options, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ilion.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var o Options
	return o, Load(path, &o)
}

// TestLoadOptions checks the options that a configuration file sets, and the errors that are reported.
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
		Data: "/d", CQL: "0.0.0.0:9042", Memory: Memory{Budget: 8 << 30, Memtable: 1 << 20},
		Limits: Limits{ReadTimeout: 500 * time.Millisecond, ResultBytes: 64 << 20},
		Auth:   Auth{Users: map[string]string{"app": "$2a$10$x"}}, Storage: Storage{MinFreeDisk: 3},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := load(t, "# nothing\n"); err != nil ||
		!cmp.Equal(got, Options{}) {
		t.Errorf("an empty file: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"nosuch: 1\n":                     `line 1: unknown key "nosuch"`,
		"cql: a\nmemory:\n  cache: 1\n":   `line 3: unknown key "cache"`,
		"memory:\n  budget: lots\n":       `line 2: "lots" is not a size: use a number with a unit, such as 64MiB or 30GB`,
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

// TestValidate checks which option values and combinations are rejected.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`commit "never" is unknown: use batch or periodic`:       func(o *Options) { o.Commit = "never" },
		"initial_partitions 1025 is out of range: use 1 to 1024": func(o *Options) { o.InitialPartitions = 1025 },
		"initial_partitions -1 is out of range: use 1 to 1024":   func(o *Options) { o.InitialPartitions = -1 },
		"memory.budget 1048576 is too small: use at least 64MiB": func(o *Options) { o.Memory.Budget = 1 << 20 },
		"memory.block_cache plus four times memory.memtable": func(o *Options) {
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
		"storage.encryption requires a store key": func(o *Options) {
			o.Storage.Encryption.OldKeyFile = "a"
		},
		"an in-memory node writes no files": func(o *Options) {
			o.Storage.Encryption.KeyFile = "a"
		},
		"storage.encryption.key_file and storage.encryption.key_command": func(o *Options) {
			o.Storage.Encryption.KeyFile, o.Storage.Encryption.KeyCommand = "a", "b"
		},
		"storage.encryption.old_key_file and storage.encryption.old_key_command": func(o *Options) {
			o.Storage.Encryption.OldKeyFile, o.Storage.Encryption.OldKeyCommand = "a", "b"
		},
		"storage.encryption.data_key_bits 64 is not supported: use 128 or 256": func(o *Options) {
			o.Storage.Encryption.DataKeyBits = 64
		},
		"storage.encryption.rotation 1s is out of range: use 1m0s or more": func(o *Options) {
			o.Storage.Encryption.Rotation = time.Second
		},
		`cql address "9042" is not host:port`: func(o *Options) { o.CQL = "9042" },
		`http address "on" is not host:port`:  func(o *Options) { o.HTTP = "on" },
	} {
		o := Options{}.WithDefaults()
		change(&o)
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := (Options{}).WithDefaults().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	small := Options{Memory: Memory{Budget: 64 << 20}}.WithDefaults()
	if err := small.Validate(); err != nil {
		t.Errorf("the minimum memory: %v", err)
	}
}

// TestParseBytes checks which sizes are accepted. It uses binary and decimal units.
func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "17": 17, "17B": 17, "512KiB": 512 << 10, "64 MiB": 64 << 20,
		"4GiB": 4 << 30, "2TiB": 2 << 40, "1GB": 1e9, "30 TB": 30e12} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "1kb", "1gb", "0x10", "9999999TiB", "1 KiB KiB"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is parsed as %d", text, got)
		}
	}
}

// configured lists the configuration keys below a key, with their default values.
func configured(v reflect.Value, prefix string, out map[string]reflect.Value) {
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		field := v.Field(i)
		switch {
		case tag == "-" || !v.Type().Field(i).IsExported():
		case field.Kind() == reflect.Struct && tag == "":
			configured(field, prefix, out)
		case field.Kind() == reflect.Struct && tag != "guardrails" && tag != "audit_logging_options":
			configured(field, prefix+tag+".", out)
		default:
			out[prefix+tag] = field
		}
	}
}

// TestConfigurationIsDocumented checks that docs/configuration.md lists exactly the keys of the configuration file.
// Documented defaults that are numbers, words, or durations must match the code.
func TestConfigurationIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]reflect.Value{}
	o := Options{Data: "./ilion-data"}.WithDefaults()
	configured(reflect.ValueOf(o), "", keys)
	documented, compared := map[string]bool{"guardrails": true, "audit_logging_options": true}, 0
	key := regexp.MustCompile("`([a-z_]+(?:\\.[a-z_]+)*)`")
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "or"), " | ")
		if strings.HasPrefix(line, "## Memory budget") {
			break // the following tables list no keys
		}
		switch len(cells) {
		case 4: // command line, key, default, meaning
			cells = cells[1:]
		case 5: // key, type, unit, default, meaning
			cells = []string{cells[0], cells[3], cells[4]}
		default:
			continue
		}
		names := key.FindAllStringSubmatch(cells[0], -1)
		for i, name := range names {
			field, ok := keys[name[1]]
			documented[name[1]] = true
			if !ok && name[1] != "guardrails" && name[1] != "audit_logging_options" {
				t.Errorf("%s is documented but does not exist", name[1])
			}
			defaults := strings.Split(cells[1], ", ")
			if !ok || len(defaults) != len(names) {
				continue
			}
			if is, ok := plainly(field); ok {
				said := strings.Trim(defaults[i], "`")
				if number, err := strconv.ParseFloat(said, 64); err == nil {
					said = strconv.FormatFloat(number, 'f', -1, 64)
				}
				if compared++; said != is && !computed[name[1]] {
					t.Errorf("the default of %s is documented as %s but is %s", name[1], said, is)
				}
			}
		}
	}
	for name := range keys {
		if !documented[name] {
			t.Errorf("%s is not documented", name)
		}
	}
	if len(keys) < 60 || compared < 40 {
		t.Errorf("found only %d keys and compared only %d defaults", len(keys), compared)
	}
}

// computed lists the options whose defaults depend on other options, on the machine, or on an imported package. The
// page describes these defaults in words.
var computed = map[string]bool{
	"memory.budget": true, "memory.block_cache": true, "memory.memtable": true, "limits.connections_per_address": true,
	"cluster.balance_threshold": true, "cluster.snapshot_rate": true,
	"limits.request_bytes": true, "limits.result_bytes": true, "limits.row_bytes": true, "cluster.advertise": true,
}

// plainly returns a default value in the form that the page uses. It returns false for values other than text,
// numbers, sizes, and times.
func plainly(v reflect.Value) (string, bool) {
	switch x := v.Interface().(type) {
	case Bytes:
		for _, unit := range []struct {
			name string
			size Bytes
		}{{"MiB", 1 << 20}, {"KiB", 1 << 10}} {
			if x%unit.size == 0 && x/unit.size > 0 && x/unit.size < 1024 {
				return fmt.Sprint(x/unit.size, unit.name), true
			}
		}
		return fmt.Sprint(int64(x)), true
	case time.Duration:
		text := x.String()
		text = strings.TrimSuffix(strings.TrimSuffix(text, "0s"), "0m")
		if x == 0 {
			text = "0"
		}
		return text, true
	case string:
		return x, x != ""
	case int, bool:
		return fmt.Sprint(x), true
	}
	return "", false
}
