// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the fixture of the present format")

// present is the folder with the fixture of the format that this build writes.
var present = filepath.Join("testdata", fmt.Sprintf("v%d", storage.FormatVersion))

// nodeOptions returns the options of a node on a directory. A member is the only node of its cluster.
func nodeOptions(dir string, member bool) options.Options {
	o := options.Options{UserFunctions: true, Data: dir, CQL: "127.0.0.1:0", HTTP: "off", InitialPartitions: 2}
	o.Memory.Budget = 256 << 20
	if member {
		o.Cluster.Internal, o.Cluster.Bootstrap = "127.0.0.1:0", true
	}
	return o
}

// run starts a node on a directory, calls f with a client, and stops the node.
func run(t *testing.T, dir string, member bool, f func(c *rawclient.Conn)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := node.Start(ctx, nodeOptions(dir, member))
	if err != nil {
		t.Fatal(err)
	}
	c, err := rawclient.Dial(ctx, n.CQLAddr().String(), rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f(c)
	if err := errors.Join(c.Close(), n.Close()); err != nil {
		t.Fatal(err)
	}
}

// statements creates the data of a fixture, with each kind of column, deletion, and record. Times to live are 20
// years.
var statements = strings.Split(strings.TrimSpace(script), ";\n")

const script = `
CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND durable_writes = true;
CREATE TYPE ks.address (street text, numbers frozen<list<int>>);
CREATE TABLE ks.all_types (k int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e date, f decimal, g double, h
	duration, i float, j inet, l smallint, m time, n timestamp, o timeuuid, p tinyint, q uuid, r varchar, s varint, t
	tuple<int, text>, u address, v frozen<address>, w list<int>, x set<text>, y map<text, int>);
INSERT INTO ks.all_types (k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r, s, t, u, v, w, x, y) VALUES (1,
	'ascii', 2, 0xcafe, true, '2024-02-29', 1.25, 0.5, 1mo2d3h, 2.5, '127.0.0.1', 3, '12:00:00',
	'2024-01-01T00:00:00Z', 50554d6e-29bb-11e5-b345-feff819cdc9f, 4, 123e4567-e89b-12d3-a456-426655440000, 'text',
	12345678901234567890, (1, 'one'), {street: 'a', numbers: [1, 2]}, {street: 'b', numbers: []}, [3, 1, 2], {'x',
	'y'}, {'k': 1});
UPDATE ks.all_types SET w[1] = 9, x = x - {'x'}, y['l'] = 2 WHERE k = 1;
INSERT INTO ks.all_types (k) VALUES (2);
CREATE TABLE ks.rows (p text, c int, d text, s text static, v text, gone text, PRIMARY KEY (p, c, d)) WITH
	CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'fixture' AND gc_grace_seconds = 315360000;
INSERT INTO ks.rows (p, c, d, v, gone) VALUES ('one', 1, 'a', 'v1', 'dropped');
INSERT INTO ks.rows (p, c, d, v) VALUES ('one', 2, 'b', 'v2') USING TTL 630720000;
INSERT INTO ks.rows (p, c, d, v) VALUES ('one', 3, 'c', 'deleted row');
INSERT INTO ks.rows (p, c, d, v) VALUES ('one', 10, 'd', 'deleted range');
INSERT INTO ks.rows (p, c, d, v) VALUES ('one', 20, 'e', 'after the range') USING TIMESTAMP 1700000000000000;
INSERT INTO ks.rows (p, s) VALUES ('one', 'static');
INSERT INTO ks.rows (p, c, d, v) VALUES ('deleted', 1, 'a', 'v');
INSERT INTO ks.rows (p, s) VALUES ('static only', 'static');
DELETE FROM ks.rows WHERE p = 'one' AND c = 3 AND d = 'c';
DELETE FROM ks.rows WHERE p = 'one' AND c >= 8 AND c < 12;
DELETE FROM ks.rows WHERE p = 'deleted';
DELETE v FROM ks.rows WHERE p = 'one' AND c = 2 AND d = 'b';
CREATE INDEX by_v ON ks.rows (v);
ALTER TABLE ks.rows DROP gone;
ALTER TABLE ks.rows ADD added int;
BEGIN BATCH INSERT INTO ks.rows (p, c, d, v) VALUES ('batch', 1, 'a', 'indexed'); INSERT INTO ks.rows (p, c, d, v)
	VALUES ('other', 1, 'a', 'indexed'); APPLY BATCH;
INSERT INTO ks.rows (p, c, d, v) VALUES ('condition', 1, 'a', 'first') IF NOT EXISTS;
UPDATE ks.rows SET v = 'second' WHERE p = 'condition' AND c = 1 AND d = 'a' IF v = 'first';
CREATE TABLE ks.counters (k text PRIMARY KEY, n counter, m counter);
UPDATE ks.counters SET n = n + 5, m = m - 2 WHERE k = 'c';
UPDATE ks.counters SET n = n + 1 WHERE k = 'c';
DELETE m FROM ks.counters WHERE k = 'c';
CREATE TABLE ks.truncated (k int PRIMARY KEY);
INSERT INTO ks.truncated (k) VALUES (1);
TRUNCATE ks.truncated;
INSERT INTO ks.truncated (k) VALUES (2);
CREATE TABLE ks.dropped (k int PRIMARY KEY);
DROP TABLE ks.dropped
`

// questions holds the statements whose results are in the fixture.
var questions = []string{
	"SELECT JSON * FROM ks.all_types WHERE k = 1", "SELECT JSON * FROM ks.all_types WHERE k = 2",
	"SELECT JSON * FROM ks.rows WHERE p = 'one'", "SELECT JSON * FROM ks.rows WHERE p = 'deleted'",
	"SELECT JSON * FROM ks.rows WHERE p = 'static only'", "SELECT JSON p, c FROM ks.rows WHERE v = 'indexed'",
	"SELECT JSON * FROM ks.rows WHERE p = 'condition'",
	"SELECT JSON writetime(v) FROM ks.rows WHERE p = 'one' AND c = 20",
	"SELECT JSON * FROM ks.counters", "SELECT JSON * FROM ks.truncated",
	"SELECT JSON table_name, comment, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = 'ks'",
	"SELECT JSON column_name, type, kind FROM system_schema.columns WHERE keyspace_name = 'ks' AND table_name = 'rows'",
	"SELECT JSON type_name, field_names, field_types FROM system_schema.types WHERE keyspace_name = 'ks'",
}

// answers runs questions and returns the results as text, one line per row.
func answers(t *testing.T, c *rawclient.Conn, questions []string) string {
	t.Helper()
	var out strings.Builder
	for _, q := range questions {
		r, err := c.Query(q)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, q)
		cells := r.Cells
		for range r.RowCount {
			n := int(binary.BigEndian.Uint32(cells))
			fmt.Fprintf(&out, "\t%s\n", cells[4:4+n])
			cells = cells[4+n:]
		}
	}
	return out.String()
}

// TestRewrite writes the fixture of the present format if the flag -rewrite is set.
func TestRewrite(t *testing.T) {
	if !*rewrite {
		t.Skip("without -rewrite")
	}
	if err := os.MkdirAll(present, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, member := range map[string]bool{"alone": false, "member": true} {
		dir := filepath.Join(t.TempDir(), name)
		run(t, dir, member, func(c *rawclient.Conn) {
			for _, s := range statements {
				if _, err := c.Query(s); err != nil {
					t.Fatal(err)
				}
			}
			text := []byte(answers(t, c, questions))
			if err := os.WriteFile(filepath.Join(present, name+".txt"), text, 0o644); err != nil {
				t.Fatal(err)
			}
		})
		if err := pack(filepath.Join(present, name+".tar.gz"), dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(present, "records.txt"), []byte(recordsText()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDirectories checks that this build opens the directories of all formats. Each format has a directory of a
// standalone node and a directory of a cluster member. The build must find the data, write new data, and find all data
// again. This must also work after the feature level has been raised to the level of the build.
func TestDirectories(t *testing.T) {
	packed, err := filepath.Glob(filepath.Join("testdata", "*", "*.tar.gz"))
	if err != nil || len(packed) < 2 {
		t.Fatalf("%d directories: %v", len(packed), err)
	}
	for _, file := range packed {
		base := strings.TrimSuffix(file, ".tar.gz")
		t.Run(base, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := unpack(file, dir); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(base + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			member := strings.HasPrefix(filepath.Base(base), "member")
			for range 2 {
				run(t, dir, member, func(c *rawclient.Conn) {
					if got := answers(t, c, questions); got != string(want) {
						t.Errorf("got\n%s\nwant\n%s", got, want)
					}
					if _, err := c.Query("UPDATE ks.counters SET n = n + 1 WHERE k = 'new'"); err != nil {
						t.Error(err)
					}
					if _, err := c.Query("DELETE FROM ks.counters WHERE k = 'new'"); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// TestNewerDirectories checks that this build rejects data of a later build without changing the data. The error must
// name the cause and must not report damage.
func TestNewerDirectories(t *testing.T) {
	edit := func(from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			name := filepath.Join(dir, "ilion.id")
			text, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(text), from) {
				t.Fatalf("%s %v", text, err)
			}
			lines, _, _ := strings.Cut(strings.Replace(string(text), from, to, 1), "sum ")
			sum := crc32.Checksum([]byte(lines), crc32.MakeTable(crc32.Castagnoli))
			if err := os.WriteFile(name, fmt.Appendf(nil, "%ssum %08x\n", lines, sum), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	stored := func(id uint32, change func(value []byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			s, err := storage.Open(vfs.Default, dir, storage.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var sub, value []byte
			err = s.Scan(id, nil, func(k, v []byte) error {
				if sub == nil {
					sub, value = append([]byte{}, k...), change(append([]byte{}, v...))
				}
				return nil
			})
			if err = errors.Join(err, s.Set(id, sub, value), s.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	newer := func(v []byte) []byte { v[0] = 99; return v }
	for _, c := range []struct {
		name   string
		member bool
		change func(t *testing.T, dir string)
		want   string
	}{
		{"format", false, edit("\nformat 2\n", "\nformat 3\n"),
			"this directory was written by a newer version of Ilion (format 3); this version supports 2"},
		{"level", false, edit("\nlevel 2\n", "\nlevel 11\n"),
			"this directory was written by a newer version of Ilion (feature level 11); this version supports 1 to 10"},
		{"meta", false, stored(keys.PartitionID, newer),
			"partition metadata was written by a newer version of Ilion (format 99); this version supports 2"},
		{"meta of a member", true, stored(keys.PartitionID, newer),
			"partition metadata was written by a newer version of Ilion (format 99); this version supports 2"},
		{"progress", false, stored(keys.ProgressID, newer),
			"the progress of partitions was written by a newer version of Ilion (format 99); this version supports 1"},
		{"replica", true, stored(keys.RegistryID, newer),
			"a replica record was written by a newer version of Ilion (format 99); this version supports 2"},
		{"field of a meta", false, stored(keys.PartitionID, func(v []byte) []byte {
			return append(v[:len(v)-1], 0xc7, 1, 0, 0) // field 99, which is required and empty
		}), "partition metadata was written by a newer version of Ilion (field 99); this version supports 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			name := "alone"
			if c.member {
				name = "member"
			}
			if err := unpack(filepath.Join(present, name+".tar.gz"), dir); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			n, err := node.Start(t.Context(), nodeOptions(dir, c.member))
			if err == nil {
				_ = n.Close()
			}
			if !errors.Is(err, feature.ErrNewer) || errors.Is(err, storage.ErrCorrupt) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
