// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// TestStateRefusesDamage checks that decoding an encoded paging state returns the original position. Damaged states,
// truncated states, and states of other tables must be rejected.
func TestStateRefusesDamage(t *testing.T) {
	for _, p := range []position{
		{key: []byte("key"), clustering: []byte{1, 2}, remaining: unlimited, inPartition: 7},
		{key: []byte{0}, afterPartition: true, remaining: 1, inPartition: unlimited},
	} {
		state := appendPlain(nil, 9, &p)
		got, err := readPlain(state, 9)
		if err != nil || !bytes.Equal(got.key, p.key) || !bytes.Equal(got.clustering, p.clustering) ||
			got.afterPartition != p.afterPartition ||
			got.remaining != p.remaining || got.inPartition != p.inPartition {
			t.Fatalf("got %+v, %v; want %+v", got, err, p)
		}
		if _, err := readPlain(state, 8); err == nil {
			t.Error("the state of another table was accepted")
		}
		for i := range state {
			damaged := bytes.Clone(state)
			damaged[i] ^= 0x10
			if _, err := readPlain(damaged, 9); err == nil {
				t.Errorf("byte %d damaged: accepted", i)
			}
			if _, err := readPlain(state[:i], 9); err == nil {
				t.Errorf("cut after %d bytes: accepted", i)
			}
		}
	}
}

// FuzzState checks that decoding arbitrary bytes does not panic.
func FuzzState(f *testing.F) {
	f.Add(appendPlain(nil, 1, &position{key: []byte("k"), clustering: []byte{3}, remaining: 5, inPartition: unlimited}))
	f.Add([]byte{stateVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := readPlain(b, 1); err != nil {
			if _, ok := err.(*dberr.Protocol); !ok {
				t.Fatalf("%T", err)
			}
		}
	})
}

// TestStateBytes checks that the encoding of paging states does not change, because clients may keep paging states
// across upgrades.
func TestStateBytes(t *testing.T) {
	p := position{key: []byte("key"), clustering: []byte{}, afterPartition: true, remaining: 300,
		inPartition: unlimited}
	if got, want := hex.EncodeToString(appendPlain(nil, 600, &p)), "010100000258ad0200036b657900d2de01f7"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
