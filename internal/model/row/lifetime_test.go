// SPDX-License-Identifier: Apache-2.0

package row

import (
	"errors"
	"testing"
)

// TestLifetimes checks that a row expires according to the current setting, counted from its timestamp. An expired row
// must stay expired.
func TestLifetimes(t *testing.T) {
	operand := func(lifetime int32) []byte {
		var b Builder
		b.Reset(7)
		b.LiveFor(lifetime, 100)
		b.Cell(1, nil, []byte("v"), 0, 0)
		return b.Bytes()
	}
	off, none, ten := Lifetimes{}, Lifetimes{Default: NoDefault}, Lifetimes{Default: 10}
	after := func(l Lifetimes, now int64) Lifetimes { return Lifetimes{Default: l.Default, Past: ten.At(now)} }
	for _, c := range []struct {
		name     string
		lifetime int32
		setting  Lifetimes
		now      int64
		exists   bool
		deadline int64
	}{
		{"off", 5, off, 1 << 40, true, NoExpiry},
		{"off, default", DefaultLifetime, off, 1 << 40, true, NoExpiry},
		{"own", 5, none, 105, true, 106},
		{"own, over", 5, none, 106, false, 106},
		{"own before the default", 5, ten, 106, false, 106},
		{"own after the default", 50, ten, 150, true, 151},
		{"no default", DefaultLifetime, none, 1 << 40, true, NoExpiry},
		{"default", DefaultLifetime, ten, 110, true, 111},
		{"default, over", DefaultLifetime, ten, 111, false, 111},
		{"turned off before", DefaultLifetime, after(off, 110), 1 << 40, true, NoExpiry},
		{"turned off after", DefaultLifetime, after(off, 111), 1 << 40, false, NoExpiry},
		{"own, turned off before", 5, after(off, 105), 1 << 40, true, NoExpiry},
		{"own, turned off after", 5, after(off, 106), 1 << 40, false, NoExpiry},
		{"raised before", DefaultLifetime, after(Lifetimes{Default: 100}, 110), 200, true, 201},
		{"raised after", DefaultLifetime, after(Lifetimes{Default: 100}, 111), 112, false, 201},
	} {
		op := operand(c.lifetime)
		var r Row
		exists, err := r.Resolve(op, c.setting.At(c.now).Covering(op, NotDeleted), c.now, nil)
		if err != nil || exists != c.exists {
			t.Errorf("%s: the row exists: %v, %v", c.name, exists, err)
		}
		if at := c.setting.Deadline(op); at != c.deadline {
			t.Errorf("%s: the deadline is %d, want %d", c.name, at, c.deadline)
		}
	}
}

// TestLifetimeBytes checks that a lifetime survives encoding and stamping, and that other rows have no lifetime.
func TestLifetimeBytes(t *testing.T) {
	for _, lifetime := range []int32{DefaultLifetime, 1, 127, 128, 1<<31 - 1} {
		var b Builder
		b.Reset(Unstamped)
		b.LiveFor(lifetime, 1_800_000_000)
		op := b.Append(nil)
		if !Stamp(op, 7_000_000) {
			t.Fatal("no stamp was taken")
		}
		var r Row
		if _, err := r.Resolve(op, NotDeleted, 0, nil); err != nil || !HasLifetime(op) ||
			r.Liveness != (Liveness{Timestamp: 7_000_000, Expiry: NoExpiry, Lifetime: lifetime,
				Written: 1_800_000_000}) {
			t.Errorf("%d: %+v, %v", lifetime, r, err)
		}
		if _, err := r.Resolve(op[:len(op)-1], NotDeleted, 0, nil); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d, truncated: %v", lifetime, err)
		}
	}
	var b Builder
	b.Reset(1)
	b.Live(0, 0)
	if op := b.Bytes(); HasLifetime(op) || (Expired{Own: 1 << 50, Default: 1 << 50}).Covering(op, 3) != 3 {
		t.Error("a row without a lifetime has one")
	}
}
