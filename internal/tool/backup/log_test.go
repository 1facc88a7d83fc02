// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/test/fakeclock"
)

var epoch = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// past is a simulated archive. It has a restore point every four seconds and three restore points per segment. Each
// restore point sets the cell of a row to its number.
type past struct {
	t      *testing.T
	target Target
	sum    string
	marks  int
	names  []archive.SegmentName
}

func newPast(t *testing.T) *past {
	return &past{t: t, target: memory{}}
}

// memory is an in-memory Target for one goroutine.
type memory map[string][]byte

func (m memory) Put(_ context.Context, name string, data []byte) error { m[name] = data; return nil }

func (m memory) Get(_ context.Context, name string) ([]byte, error) {
	if data, ok := m[name]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) Has(_ context.Context, name string) (bool, error) { _, ok := m[name]; return ok, nil }

func (m memory) List(_ context.Context, prefix string) (out []string, _ error) {
	for name := range m {
		if strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (m memory) Remove(_ context.Context, name string) error { delete(m, name); return nil }

func tick(n int) time.Time { return epoch.Add(time.Duration(n) * 4 * time.Second) }

var rowKey = keys.AppendRow(nil, 1024, token.Hash([]byte{1}), []byte{1}, nil)

// cell returns an operand that sets the cell to a number.
func cell(n int) []byte {
	var b row.Builder
	b.Reset(int64(n) + 1)
	b.Live(0, 0)
	b.Cell(1, nil, binary.BigEndian.AppendUint32(nil, uint32(n)), 0, 0)
	return b.Append(nil)
}

// segments stores n segments. If hole is set, the first segment starts a new log.
func (p *past) segments(n int, hole bool) {
	p.t.Helper()
	if hole {
		p.sum = ""
	}
	for range n {
		s := archive.Segment{Cluster: "c", Previous: p.sum}
		var b archive.Builder
		for i := range 3 {
			s.RestorePoints = append(s.RestorePoints, archive.RestorePoint{Time: tick(p.marks),
				Tables: []archive.Table{{Keyspace: "ks", Name: fmt.Sprint("t", p.marks), ID: 1024}}})
			records := archive.AppendKey(nil, i, append(make([]byte, 4), archive.MetadataKey...))
			if err := errors.Join(b.Add(records, fmt.Append(nil, p.marks)),
				b.Add(archive.AppendKey(nil, i, rowKey), cell(p.marks))); err != nil {
				p.t.Fatal(err)
			}
			p.marks++
		}
		s.Add(&b)
		data, sum, name, err := s.Encode(true)
		if err == nil {
			err = p.target.Put(p.t.Context(), logDir+name.String(), data)
		}
		if err != nil {
			p.t.Fatal(err)
		}
		p.sum = sum
		p.names = append(p.names, name)
	}
}

// base stores a backup with a file that other backups do not share.
func (p *past) base(id string, at time.Time, followed bool) {
	p.t.Helper()
	var b archive.Builder
	if err := b.Add(rowKey[4:], []byte(id)); err != nil {
		p.t.Fatal(err)
	}
	m := archive.Manifest{ID: id, Time: at, Archived: followed, Metadata: b.File()}
	data, err := m.Encode()
	err = errors.Join(err, p.target.Put(p.t.Context(), fileName(b.File().Name), b.Data()),
		p.target.Put(p.t.Context(), manifestName(id), data))
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *past) load() *Log {
	p.t.Helper()
	l, err := LoadLog(p.t.Context(), p.target)
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// valueAt restores the row as of a time. It returns the time of the restore point and the number in the cell. The
// number is -1 if the row has not changed since the base backup.
func valueAt(ctx context.Context, l *Log, t Target, at time.Time) (mark time.Time, n int, err error) {
	point, err := l.At(ctx, t, at)
	if err != nil {
		return mark, 0, err
	}
	c := new(changes)
	err = point.Each(ctx, func(list []change) error {
		for _, k := range list {
			c.add(k.key, k.value)
		}
		return nil
	})
	n = -1
	err = errors.Join(err, c.each(func(_, v []byte) error {
		var r row.Row
		_, err := r.Resolve(v, row.NotDeleted, 0, nil)
		n = int(binary.BigEndian.Uint32(r.Cell(1).Value))
		return err
	}))
	if tables := point.Manifest.Tables; n >= 0 && l.Bases[0].Cluster == "" &&
		(tables[0].Name != fmt.Sprint("t", n) || string(point.Records) != fmt.Sprint(n)) {
		err = fmt.Errorf("the cluster metadata does not belong to restore point %d: %v %s", n, tables, point.Records)
	}
	return point.Manifest.Time, n, err
}

// TestLog checks that a restore returns the state of the newest restore point at or before the requested time. If the
// base backup is missing or the log has a gap, the restore must return an error. Ranges must list the times that can
// be restored.
func TestLog(t *testing.T) {
	p := newPast(t)
	p.segments(4, true) // restore points 0 to 11
	p.base("a", tick(4), true)
	p.base("plain", tick(2), false)
	p.segments(2, true) // restore points 12 to 17, after a gap
	p.base("b", tick(13), true)
	p.base("c", tick(16), true)
	l := p.load()
	ranges := l.Ranges()
	if len(ranges) != 2 || ranges[0] != (Range{tick(4), tick(11)}) || ranges[1] != (Range{tick(13), tick(17)}) {
		t.Errorf("the ranges that can be restored: %v", ranges)
	}
	for n := range 20 {
		for _, at := range []time.Time{tick(n), tick(n).Add(3 * time.Second)} {
			mark, got, err := valueAt(t.Context(), l, p.target, at)
			good := n >= 4 && n < 11 || n >= 13 && n < 17 || (n == 11 || n == 17) && at.Equal(tick(n))
			if good != (err == nil) {
				t.Errorf("%s: %v", at, err)
			}
			if err != nil {
				continue
			}
			if n == 4 || n == 13 || n == 16 {
				if got != -1 || !mark.Equal(tick(n)) {
					t.Errorf("%s: want the base backup, but %d of %s was found", at, got, mark)
				}
				continue
			}
			if got != n || !mark.Equal(tick(n)) {
				t.Errorf("%s: %d of %s was found", at, got, mark)
			}
		}
	}
	if err := l.Verify(t.Context(), p.target, nil); err != nil {
		t.Error(err)
	}
}

// TestLogDamage checks that Verify names a segment that is missing, damaged, or replaced by another segment. If a base
// backup precedes this segment, it must not be used for a restore to a time after the segment.
func TestLogDamage(t *testing.T) {
	p := newPast(t)
	p.segments(5, true)
	p.base("a", tick(0), true)
	bad := logDir + p.names[2].String()
	data, err := p.target.Get(t.Context(), bad)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 23 {
		worse := append([]byte{}, data...)
		worse[i] ^= 4
		if err := p.target.Put(t.Context(), bad, worse); err != nil {
			t.Fatal(err)
		}
		l := p.load()
		err := l.Verify(t.Context(), p.target, nil)
		if err == nil || !strings.Contains(err.Error(), p.names[2].String()) {
			t.Fatalf("byte %d was changed: %v", i, err)
		}
		if _, _, err := valueAt(t.Context(), l, p.target, tick(10)); err == nil {
			t.Fatalf("byte %d was changed, and a later time was restored", i)
		}
		if _, n, err := valueAt(t.Context(), l, p.target, tick(4)); err != nil || n != 4 {
			t.Fatalf("an earlier time was not restored: %d %v", n, err)
		}
	}
	other, err := p.target.Get(t.Context(), logDir+p.names[1].String())
	if err == nil {
		err = p.target.Put(t.Context(), bad, other)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.load().Verify(t.Context(), p.target, nil); err == nil {
		t.Error("a replaced segment was not detected")
	}
	if err := p.target.Remove(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	l := p.load()
	if r := l.Ranges(); len(l.Chains) != 2 || !l.Missing[1] || len(r) != 1 || r[0].To != tick(5) {
		t.Errorf("a segment is missing, and the ranges are %v in %d pieces", r, len(l.Chains))
	}
	if _, _, err := valueAt(t.Context(), l, p.target, tick(10)); err == nil {
		t.Error("a segment is missing, and a later time was restored")
	}
}

// TestPrune checks the pruner with random gaps, base backups, and retention times. Every time in the retention period
// that could be restored before must still be restorable afterward, with the same result. A later run must remove all
// data that a killed run has left behind. A file must be removed if and only if no backup refers to the file.
func TestPrune(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := newPast(t)
		plain := 0
		for p.marks < 40 {
			from := p.marks
			p.segments(1+rng.IntN(4), p.marks == 0 || rng.IntN(3) == 0)
			if rng.IntN(2) == 0 {
				p.base(fmt.Sprintf("f%03d", from), tick(from+rng.IntN(p.marks-from)), true)
			}
			if rng.IntN(3) == 0 {
				plain++
				p.base(fmt.Sprintf("p%03d", from), tick(from), false)
			}
		}
		now, keep := tick(p.marks), time.Duration(1+rng.IntN(60))*time.Minute
		before := p.load()
		type state struct {
			mark time.Time
			n    int
		}
		had := map[int]state{}
		for n := range p.marks {
			mark, v, err := valueAt(t.Context(), before, p.target, tick(n))
			if err == nil && now.Sub(tick(n)) <= keep {
				had[n] = state{mark, v}
			}
		}
		prune := func(target Target) error {
			q := &Pruner{Target: target, Clock: fakeclock.Func(func() time.Time { return now }), Keep: keep,
				KeepLast: 2}
			return q.Prune(t.Context())
		}
		check := func() {
			t.Helper()
			l := p.load()
			for n, want := range had {
				mark, v, err := valueAt(t.Context(), l, p.target, tick(n))
				if err != nil || v != want.n || mark != want.mark {
					t.Fatalf("seed %d, tick %d: %v and %d was %v: %v", seed, n, mark, v, want, err)
				}
			}
			ids, _ := List(t.Context(), p.target)
			left := 0
			for _, id := range ids {
				m, err := Load(t.Context(), p.target, id)
				if err != nil {
					t.Fatal(err)
				}
				if !m.Archived {
					left++
				}
				if err := (&Checker{Target: p.target}).Check(t.Context(), m); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if left < min(plain, 2) {
				t.Fatalf("seed %d: %d backups are left of %d", seed, left, plain)
			}
		}
		for n := range 10 {
			_ = prune(&mortal{Target: p.target, left: n})
			check()
		}
		if err := prune(p.target); err != nil {
			t.Fatal(err)
		}
		check()
		ids, _ := List(t.Context(), p.target)
		files, _ := p.target.List(t.Context(), "files/")
		if len(files) != len(ids) {
			t.Errorf("seed %d: %d files are left of %d backups", seed, len(files), len(ids))
		}
		p.base("more", now, false)
		if err := p.target.Put(t.Context(), fileName(strings.Repeat("0", 64)), nil); err != nil {
			t.Fatal(err)
		}
		if err := p.target.Put(t.Context(), "pending/x/00000000", nil); err != nil {
			t.Fatal(err)
		}
		if err := prune(p.target); err != nil {
			t.Fatal(err)
		}
		if has, _ := p.target.Has(t.Context(), fileName(strings.Repeat("0", 64))); !has {
			t.Error("a file was removed while a backup was being made")
		}
	}
}

// mortal is a Target whose process is killed after some removals.
type mortal struct {
	Target
	left int
}

func (m *mortal) Remove(ctx context.Context, name string) error {
	if m.left--; m.left < 0 {
		return errors.New("killed")
	}
	return m.Target.Remove(ctx, name)
}
