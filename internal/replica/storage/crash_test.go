// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// crashes is the number of crashed disks that TestCrash opens. Under the race detector, the test opens a tenth of that
// number.
const crashes = 1000

// TestCrash applies numbered batches of two rows and a system key with occasional syncs. It clones the disk at random
// times and drops some of the unsynced data. Every clone must open and contain a prefix of complete batches, including
// all batches synced before it was cloned (ST1).
func TestCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := crashes
	if raced {
		n /= 10
	}
	for round := 0; round*50 < n; round++ {
		crashRound(t, rng)
	}
}

func crashRound(t *testing.T, rng *rand.Rand) {
	fs := vfs.NewCrashableMem()
	o := Options{MemtableBytes: 256 << 10, CacheBytes: 1 << 20, TombstoneCacheBytes: -1}
	s, err := Open(fs, "db", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	type disk struct {
		fs     *vfs.MemFS
		synced uint64
	}
	var disks []disk
	var n, synced uint64
	payload := bytes.Repeat([]byte("x"), 3000)
	for len(disks) < 50 {
		for range rng.IntN(20) {
			n++
			crashBatch(t, s, n, payload)
		}
		switch rng.IntN(8) {
		case 0, 1:
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			synced = n
		case 2:
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			synced = n // flushed data is in a synced sstable
		case 3:
			if err := s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false); err != nil {
				t.Fatal(err)
			}
			synced = n
		}
		disks = append(disks, disk{fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}),
			synced})
	}
	for _, d := range disks {
		c, err := Open(d.fs, "db", o)
		if err != nil {
			t.Fatalf("a crashed disk does not open: %v", err)
		}
		checkPrefix(t, c, d.synced, n)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// crashBatch writes batch n, which consists of a new row, one column of a shared row, and the number as a system key.
func crashBatch(t *testing.T, s *Store, n uint64, payload []byte) {
	num := binary.BigEndian.AppendUint64(nil, n)
	b := s.NewBatch()
	defer b.Close()
	for _, m := range []command.Mutation{
		mutation(fmt.Sprint("own", n), "", int64(n), func(b *row.Builder) { b.Cell(1, nil, payload, 0, 0) }),
		mutation("shared", "", int64(n), func(b *row.Builder) { b.Cell(1, nil, num, 0, 0); b.Cell(2, num, num, 0, 0) }),
	} {
		if err := b.Mutate(&m); err != nil {
			t.Fatal(err)
		}
	}
	b.Set(keys.MetaID, []byte("n"), num)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// shared collects the values of the shared row.
type shared struct {
	last uint64
	all  int
}

func (v *shared) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (v *shared) Row(_ []byte, r *row.Row) (command.Step, error) {
	v.last, v.all = binary.BigEndian.Uint64(r.Cell(1).Value), len(r.Column(2))
	return command.More, nil
}

func checkPrefix(t *testing.T, s *Store, synced, written uint64) {
	t.Helper()
	var last uint64
	if b, err := s.Get(keys.MetaID, []byte("n")); err != nil {
		t.Fatal(err)
	} else if b != nil {
		last = binary.BigEndian.Uint64(b)
	}
	var v shared
	if err := s.Read(context.Background(), &command.Read{Table: testTable, Key: []byte("shared"),
		Token: token.Hash([]byte("shared"))}, &v); err != nil {
		t.Fatal(err)
	}
	var rows silent
	if err := s.Read(context.Background(), &command.Read{Table: testTable}, &rows); err != nil {
		t.Fatal(err)
	}
	own := max(rows.rows-1, 0)
	if last < synced || last > written || v.last != last || uint64(v.all) != last || uint64(own) != last {
		t.Fatalf("%d of %d synced batches: key says %d, shared row %d with %d elements, %d rows of their own", synced,
			written, last, v.last, v.all, own)
	}
}

// TestDamagedLog checks that a flipped byte in the middle of the synced log is reported when the store opens. The torn
// end after a crash must not be reported. Damage in the data of the last syncs looks like a torn end, because a block
// protects only data that was synced before the block was written.
func TestDamagedLog(t *testing.T) {
	const logMin, batchesMax = 512 << 10, 5000
	fs := vfs.NewCrashableMem()
	s, err := Open(fs, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	payload := bytes.Repeat([]byte("x"), 2000)
	batches := uint64(0)
	// Logs are as large as memtables, and the first logs of a store are small.
	for size := int64(0); size < logMin && batches < batchesMax; {
		for range 10 {
			batches++
			crashBatch(t, s, batches, payload)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		_, size = newestLog(t, fs)
	}
	disk := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name, _ := newestLog(t, disk)
	log := readBytes(t, disk, name)
	last := len(log) / 2 // several syncs before the end
	for _, at := range []int{last / 10, last / 4, last / 2, last} {
		damaged := bytes.Clone(log)
		damaged[at] ^= 0x10
		writeBytes(t, disk, name, damaged)
		s, err := Open(disk, "db", Options{})
		if err == nil {
			_ = s.Close()
			t.Fatalf("byte %d of %d flipped: it opened", at, len(log))
		}
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name[3:]) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	writeBytes(t, disk, name, append(bytes.Clone(log[:len(log)-7]), 1, 2, 3))
	if s, err = Open(disk, "db", Options{}); err != nil {
		t.Fatalf("torn end: %v", err)
	}
	defer s.Close()
	checkPrefix(t, s, 0, batches)
}

// newestLog returns the log in use, which has the highest number.
func newestLog(t *testing.T, fs vfs.FS) (name string, size int64) {
	t.Helper()
	names, err := fs.List("db")
	slices.Sort(names)
	for _, n := range names {
		if strings.HasSuffix(n, ".log") {
			name = "db/" + n
		}
	}
	if err != nil || name == "" {
		t.Fatal("no log: ", err)
	}
	info, err := fs.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, info.Size()
}

// TestDamagedTable checks that flipped bytes in an sstable are never returned to a client. The read must fail with an
// error that names the file, and the store must stop.
func TestDamagedTable(t *testing.T) {
	fs := vfs.NewMem()
	events := make(failureObserver, 10)
	o := Options{CacheBytes: 1 << 20, Observer: events}
	s, err := Open(fs, "db", o)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range uint64(50) {
		payload := make([]byte, 4000)
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		crashBatch(t, s, n+1, payload)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := fs.List("db")
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			b := readBytes(t, fs, "db/"+n)
			b[len(b)/2] ^= 1
			writeBytes(t, fs, "db/"+n, b)
		}
	}
	if s, err = Open(fs, "db", o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Read(context.Background(), &command.Read{Table: testTable}, &silent{})
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), ".sst") || len(events) != 1 {
		t.Fatalf("%v, %d events", err, len(events))
	}
	for what, err := range map[string]error{
		"read":  s.Read(context.Background(), &command.Read{Table: testTable, Key: []byte("none")}, &silent{}),
		"write": s.Apply(insert("k", "", 1)),
		"sync":  s.Sync(),
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s after the damage: %v", what, err)
		}
	}
}
