// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/hex"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestTimeUUIDRecorded compares the bounds and times of timeuuids with recorded values of Cassandra 4.0.
func TestTimeUUIDRecorded(t *testing.T) {
	for _, c := range []struct {
		millis   int64
		min, max string
	}{
		{1296705900000, "c4fb3e002f4a11e08080808080808080", "c4fb650f2f4a11e07f7f7f7f7f7f7f7f"},
		{5, "138203501dd211b28080808080808080", "13822a5f1dd211b27f7f7f7f7f7f7f7f"},
	} {
		least, most := MinTimeUUID(c.millis), MaxTimeUUID(c.millis)
		if hex.EncodeToString(least[:]) != c.min || hex.EncodeToString(most[:]) != c.max {
			t.Errorf("%d: %x to %x, want %s to %s", c.millis, least, most, c.min, c.max)
		}
		if TimeUUIDMillis(least) != c.millis || TimeUUIDMillis(most) != c.millis {
			t.Errorf("%d: times %d and %d", c.millis, TimeUUIDMillis(least), TimeUUIDMillis(most))
		}
	}
	if got := TimeUUIDMillis([16]byte(unhex("50554d6e29bb11e5b345feff819cdc9f"))); got != 0x14e89dcb175 {
		t.Errorf("time %x", got)
	}
}

// TestTimeUUIDBounds checks that a UUID of any time is between the bounds of its millisecond.
func TestTimeUUIDBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nanos := rapid.Int64Range(0, 1<<62).Draw(t, "nanos")
		source := NewTimeUUIDs([6]byte{1, 2, 3, 0x80, 0xff, 0x7f}, rapid.Uint16().Draw(t, "sequence"))
		u := source.Next(nanos)
		least, most := MinTimeUUID(nanos/1e6), MaxTimeUUID(nanos/1e6)
		typ := Native(Timeuuid)
		if typ.Validate(u[:]) != nil || typ.Compare(least[:], u[:]) > 0 || typ.Compare(u[:], most[:]) > 0 ||
			TimeUUIDMillis(u) != nanos/1e6 {
			t.Fatalf("%x is not between %x and %x", u, least, most)
		}
		if text := string(appendUUIDText(nil, u[:])); len(text) != 36 {
			t.Fatalf("text %s", text)
		} else if back, ok := ParseUUID(text); !ok || back != u {
			t.Fatalf("%s reads as %x", text, back)
		}
	})
}

// TestTimeUUIDsIncrease checks that UUIDs are unique and, for each caller, increasing. This must be true even if the
// clock does not advance.
func TestTimeUUIDsIncrease(t *testing.T) {
	source := NewTimeUUIDs([6]byte{1}, 7)
	var mu sync.Mutex
	seen := map[[16]byte]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var last [16]byte
			for i := range 500 {
				u := source.Next(1e18)
				if i > 0 && Native(Timeuuid).Compare(last[:], u[:]) >= 0 {
					t.Errorf("%x after %x", u, last)
				}
				last = u
				mu.Lock()
				seen[u] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 2000 {
		t.Errorf("%d different of 2000", len(seen))
	}
}

func TestParseUUID(t *testing.T) {
	for _, bad := range []string{"", "123e4567-e89b-12d3-a456-42661417400", "123e4567+e89b-12d3-a456-426614174000",
		"g23e4567-e89b-12d3-a456-426614174000"} {
		if _, ok := ParseUUID(bad); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}
