// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestHashRecorded compares Hash and AppendKey with recorded results of Cassandra 4.0. The test uses composite keys
// and keys of many lengths, including bytes above 7F.
func TestHashRecorded(t *testing.T) {
	recorded, err := os.ReadFile("testdata/tokens.txt")
	if err != nil {
		t.Fatal(err)
	}
	lengths := map[int]bool{}
	for line := range strings.Lines(string(recorded)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		want, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		components := make([][]byte, len(fields)-1)
		for i, f := range fields[1:] {
			if components[i], err = hex.DecodeString(strings.Trim(f, "-")); err != nil {
				t.Fatal(err)
			}
		}
		key := AppendKey(nil, components...)
		lengths[len(key)] = true
		if got := Hash(key); got != Token(want) {
			t.Errorf("Hash(%x) = %v, recorded %v", key, got, Token(want))
		}
	}
	for n := 1; n <= 33; n++ {
		if !lengths[n] {
			t.Errorf("no recorded key of %d bytes", n)
		}
	}
}

// TestHashPublished compares Hash with published test vectors, and checks Cassandra's rules for the ends of the ring.
func TestHashPublished(t *testing.T) {
	number := func(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
	for _, c := range []struct {
		name string
		key  []byte
		want Token
	}{
		{"theo", []byte("theo"), -1457224325554927207},
		{"Beef Products", []byte("Beef Products"), 3297677473012350424},
		{"int 1", number(1), -4069959284402364209},
		{"Ada Lovelace", AppendKey(nil, []byte("Ada"), []byte("Lovelace")), 4298856126395412903},
		{"1, 2", AppendKey(nil, number(1), number(2)), 4881097376275569167},
		{"é", []byte("é"), 5461403030378599040},
		{"empty", nil, Min},
	} {
		if got := Hash(c.key); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestSplitComponent checks that composite keys can be split and that invalid keys are rejected.
func TestSplitComponent(t *testing.T) {
	key := AppendKey(nil, []byte("a"), nil, []byte{0, 1})
	var got []string
	for rest := key; len(rest) > 0; {
		component, after, ok := SplitComponent(rest)
		if !ok {
			t.Fatalf("SplitComponent(%x) failed", rest)
		}
		got = append(got, string(component))
		rest = after
	}
	if want := []string{"a", "", "\x00\x01"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("components %q, want %q", got, want)
	}
	for _, bad := range []string{"", "\x00", "\x00\x01a", "\x00\x01a\x01", "\xff\xffa\x00"} {
		if _, _, ok := SplitComponent([]byte(bad)); ok {
			t.Errorf("SplitComponent(%q) accepted", bad)
		}
	}
}

func TestHashAllocatesNothing(t *testing.T) {
	key := make([]byte, 33)
	if n := testing.AllocsPerRun(100, func() { Hash(key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkHash measures the CPU time to hash keys of common lengths.
func BenchmarkHash(b *testing.B) {
	for _, n := range []int{4, 16, 36, 256} {
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			key := []byte(strings.Repeat("k", n))
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				Hash(key)
			}
		})
	}
}
