// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRecords checks files of records that were appended by several processes, truncated, or damaged.
func TestRecords(t *testing.T) {
	raw, key := vfs.NewMem(), keyFile(t, 1)
	k := open(t, raw, options(key))
	file := []byte("before encryption\n")
	want := string(file)
	for _, line := range []string{"a\n", strings.Repeat("b", 10_000) + "\n", "", "c\n"} {
		sealed, err := k.Seal([]byte(line))
		if err != nil || line != "" && bytes.Contains(sealed, []byte(line)) {
			t.Fatalf("%q: %v", sealed, err)
		}
		file, want = append(file, sealed...), want+line
		if _, err := k.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		k = open(t, raw, options(key))
	}
	reveal := func(text []byte) (string, int64) {
		var out bytes.Buffer
		damaged, err := k.Reveal(text, &out)
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), damaged
	}
	if got, damaged := reveal(file); got != want || damaged != 0 {
		t.Errorf("%d bytes of %d, %d are damaged", len(got), len(want), damaged)
	}
	last, err := k.Seal([]byte("last\n"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(last); n++ { // a crash has truncated a record, and another process has appended
		if got, damaged := reveal(append(bytes.Clone(last[:n]), last...)); !strings.HasSuffix(got, "last\n") ||
			n >= len(recordMagic) && (got != "last\n" || damaged != int64(n)) {
			t.Errorf("%d of %d bytes: %q, %d", n, len(last), got, damaged)
		}
	}
	for i := len(recordMagic); i < len(last); i++ {
		b := bytes.Clone(last)
		b[i] ^= 1
		if got, damaged := reveal(b); got != "" || damaged != int64(len(b)) {
			t.Errorf("byte %d: %q, %d", i, got, damaged)
		}
	}
	if b, err := (*Keys)(nil).Seal([]byte("plain")); err != nil || string(b) != "plain" {
		t.Errorf("without keys: %q, %v", b, err)
	}
}

// FuzzReveal checks that any bytes are revealed without a panic.
func FuzzReveal(f *testing.F) {
	k := open(f, vfs.NewMem(), options(keyFile(f, 1)))
	sealed, err := k.Seal([]byte("text"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(append([]byte("plain"), sealed[:40]...))
	f.Fuzz(func(t *testing.T, text []byte) {
		var out bytes.Buffer
		damaged, err := k.Reveal(text, &out)
		if err != nil || out.Len()+int(damaged) > len(text) {
			t.Errorf("%d bytes: %d are revealed, %d damaged, %v", len(text), out.Len(), damaged, err)
		}
	})
}

// FuzzRegistry checks that any bytes are rejected or decoded without a panic.
func FuzzRegistry(f *testing.F) {
	raw := vfs.NewMem()
	write(f, open(f, raw, options(keyFile(f, 1))).FS(), "db/1.sst", nil)
	f.Add(contents(f, raw, "db/"+RegistryFile))
	k, err := NewStoreKey(bytes.Repeat([]byte{1}, keyBytes))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := parseRegistry(text); err == nil {
			_, _ = r.unseal(k)
		}
		line := append(bytes.ReplaceAll(text, []byte("\n"), nil), '\n')
		if r, err := parseRegistry(append(line, registrySum(line)...)); err == nil {
			_, _ = r.unseal(k)
		}
	})
}
