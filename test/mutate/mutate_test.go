// SPDX-License-Identifier: Apache-2.0

// Package mutate feeds millions of mutated valid inputs per second to every decoder. The package complements the
// native fuzz targets in the decoders' packages. Those targets are slower and guided by coverage. It checks for panics
// and for decoders that read beyond their input. It also checks that decoded results do not change when they are
// encoded and decoded again.
package mutate

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

var (
	executions = flag.Int("executions", 20_000, "number of mutated inputs for each decoder")
	seed       = flag.Uint64("seed", 1, "seed of the mutations")
)

// target is a decoder under test. The function that run returns describes a wrong outcome, or returns "".
type target struct {
	name  string
	seeds [][]byte
	run   func() func(b []byte) string // decoders reuse memory, so each goroutine needs a separate function
}

var version byte = cqlwire.V5

func messages() (out [][]byte) {
	q := cqlwire.Query{Text: []byte("SELECT * FROM ks.t WHERE k = ?")}
	q.Consistency, q.Values, q.PageSize = dberr.Quorum, [][]byte{[]byte("a"), nil}, 100
	q.Options.HasTimestamp, q.Options.Timestamp, q.Options.Keyspace = true, 5, []byte("ks")
	p := cqlwire.Prepare{Text: []byte("SELECT 1"), Keyspace: []byte("ks")}
	e := cqlwire.Execute{ID: make([]byte, 16), ResultMetadataID: make([]byte, 16), Params: q.Params}
	b := cqlwire.Batch{Statements: []cqlwire.BatchStatement{{Text: []byte("INSERT"), Values: [][]byte{{1}}},
		{ID: make([]byte, 16)}}}
	return append(out, q.Append(nil, version), p.Append(nil, version), e.Append(nil, version), b.Append(nil, version),
		cqlwire.AppendStartup(nil, cqlwire.Startup{"CQL_VERSION": "3.0.0"}),
		cqlwire.AppendRegister(nil, []string{"SCHEMA_CHANGE"}))
}

func frames(segments bool, c cqlwire.Compression) []byte {
	var w cqlwire.Writer
	w.SetFraming(segments, c)
	for i := range 3 {
		w.Begin(cqlwire.Header{Version: version, Stream: int16(i), Opcode: cqlwire.OpQuery})
		w.Buf = append(w.Buf, bytes.Repeat([]byte("SELECT "), 20*i)...)
		w.End()
	}
	w.Finish()
	return w.Buf
}

func rows() (out [][]byte) {
	var b row.Builder
	b.Reset(1_700_000_000_000_000)
	b.Live(60, 1_700_000_060)
	b.Cell(1, nil, []byte("value"), 0, 0)
	b.Cell(2, []byte{1, 2}, []byte("element"), 30, 1_700_000_030)
	b.Tombstone(3, nil, 1_700_000_000)
	b.DeleteColumn(4, -1, 1_700_000_000)
	out = append(out, bytes.Clone(b.Bytes()))
	b.Reset(5)
	b.DeleteRow(5)
	b.DeleteRange([]byte{1}, []byte{9}, 5)
	b.Cell(7, nil, []byte("static"), 0, 0)
	return append(out, bytes.Clone(b.Bytes()))
}

var types = []*cqltype.Type{
	cqltype.Native(cqltype.Int), cqltype.Native(cqltype.Text), cqltype.Native(cqltype.Decimal),
	cqltype.Native(cqltype.Varint), cqltype.Native(cqltype.Timeuuid),
	cqltype.Native(cqltype.Duration), cqltype.ListOf(cqltype.Native(cqltype.Text)).Freeze(),
	cqltype.MapOf(cqltype.Native(cqltype.Int), cqltype.Native(cqltype.Double)).Freeze(),
	cqltype.TupleOf(cqltype.Native(cqltype.Inet), cqltype.SetOf(cqltype.Native(cqltype.Bigint)).Freeze()),
}

func values() (out [][]byte) {
	for _, h := range []string{"00000001", "68c3a9", "0000000201", "ff7f", "8a5f0e20f3a211eeb9620242ac120002", "020406",
		"000000020000000161ffffffff",
		"00000001000000040000000700000008400921fb54442d18", "000000047f000001ffffffff"} {
		b, _ := hex.DecodeString(h) // the inputs are constants
		out = append(out, b)
	}
	return out
}

func commands() (out [][]byte) {
	m := command.Mutation{Table: 1024, Token: 5, Key: []byte("key"),
		Ops: []command.Op{{Clustering: []byte{1}, Operand: rows()[0]},
			{Kind: command.OpIndex, Index: 9, Value: []byte("v")}}}
	c := command.Conditional{Mutation: m, Rows: []command.RowRef{{Clustering: []byte{1}}},
		Conditions: []command.Condition{{Operator: command.Equal, Column: 1, Type: types[1],
			Values: [][]byte{[]byte("x")}}}}
	r := command.Read{Table: 1024, Key: []byte("key"), Slices: []command.Slice{{Start: []byte{1}, End: []byte{2}}}}
	return append(out, command.AppendMutation(nil, &m), command.AppendConditional(nil, &c), command.AppendRead(nil, &r))
}

func targets() []target {
	return []target{
		{"messages", messages(), func() func([]byte) string {
			var q cqlwire.Query
			var p cqlwire.Prepare
			var e cqlwire.Execute
			var bt cqlwire.Batch
			return func(b []byte) string {
				for v := byte(cqlwire.V3); v <= cqlwire.V5; v++ {
					_, _, _, _ = q.Decode(b, v), p.Decode(b, v), e.Decode(b, v), bt.Decode(b, v)
				}
				return ""
			}
		}},
		{"frames and segments", [][]byte{frames(false, cqlwire.NoCompression), frames(true, cqlwire.NoCompression),
			frames(true, cqlwire.LZ4)}, func() func([]byte) string {
			return func(b []byte) string {
				if _, body, n, ok, err := cqlwire.NextEnvelope(b, 1<<20); ok && err == nil &&
					(n > len(b) || len(body) > n) {
					return "an envelope is longer than its input"
				}
				for _, lz4 := range []bool{false, true} {
					s, n, ok, err := cqlwire.NextSegment(b, lz4)
					if err != nil || !ok {
						continue
					}
					if n > len(b) {
						return "a segment is longer than its input"
					}
					if lz4 {
						_, _ = cqlwire.DecompressSegment(nil, s)
					}
				}
				return ""
			}
		}},
		{"rows", rows(), func() func([]byte) string {
			var r row.Row
			var h row.Header
			other := rows()[0]
			return func(b []byte) string {
				_, e1 := r.Resolve(b, row.NotDeleted, 1_700_000_000, nil)
				_ = h.Resolve(b, 1_700_000_000, nil)
				merged, err := row.Merge(nil, b, other)
				if err != nil || e1 != nil {
					return ""
				}
				again, err := row.Merge(nil, merged, b)
				if err != nil || !bytes.Equal(again, merged) {
					return fmt.Sprintf("merging is not idempotent: %x then %x (%v)", merged, again, err)
				}
				return ""
			}
		}},
		{"values and keys", values(), func() func([]byte) string {
			var key, back []byte
			return func(b []byte) string {
				for _, t := range types {
					_, _ = t.SkipKey(b, false)
					if t.Validate(b) != nil {
						continue
					}
					key = t.AppendKey(key[:0], b, true)
					wire, rest, err := t.ReadKey(back[:0], key, true)
					if err != nil || len(rest) > 0 || t.Compare(wire, b) != 0 {
						return fmt.Sprintf("key of %s %x reads back as %x (%v)", t, b, wire, err)
					}
				}
				return ""
			}
		}},
		{"store keys", [][]byte{keys.AppendIndex(nil, 2048, []byte("value"), 5, []byte("key"), []byte{1, 2}),
			append(keys.AppendPartition(nil, 1024, 5, []byte("key")), keys.Row, 1, 2)}, func() func([]byte) string {
			return func(b []byte) string {
				if n := keys.Split(b); n < 0 || n > len(b) {
					return "Split cuts outside"
				}
				keys.Parse(b)
				keys.ParseIndex(b)
				_, _ = keys.DecodeMeta(b)
				_ = keys.DecodeProgress(b, func(keys.Progress) {})
				return ""
			}
		}},
		{"commands", commands(), func() func([]byte) string {
			var m, m2 command.Mutation
			var c command.Conditional
			var r command.Read
			var b1, b2 []byte
			return func(b []byte) string {
				_, _ = command.DecodeConditional(&c, b), command.DecodeRead(&r, b)
				if command.DecodeMutation(&m, b) != nil {
					return ""
				}
				b1 = command.AppendMutation(b1[:0], &m)
				if err := command.DecodeMutation(&m2, b1); err != nil {
					return "a decoded mutation does not encode: " + err.Error()
				}
				if b2 = command.AppendMutation(b2[:0], &m2); !bytes.Equal(b1, b2) {
					return "a mutation changes in a round trip"
				}
				return ""
			}
		}},
		{"parser", [][]byte{
			[]byte("SELECT a, b FROM ks.t WHERE k = ? AND c IN (1, 2) ORDER BY c DESC LIMIT 5 ALLOW FILTERING"),
			[]byte("INSERT INTO t (k, v) VALUES ('a''b', {1: [0xab, -1.5e3]}) IF NOT EXISTS USING TTL 5"),
			[]byte("BEGIN BATCH UPDATE t SET l = l + [1], m['k'] = $$x$$ WHERE k = 1 IF v > 2; APPLY BATCH;"),
			[]byte("CREATE TABLE t (k int, c text, s int static, PRIMARY KEY ((k), c)) WITH CLUSTERING ORDER BY (c DESC) -- x\n"),
		}, func() func([]byte) string {
			return func(b []byte) string { _, _, _ = parser.Parse(string(b)); return "" }
		}},
	}
}

// mutator changes a few bytes of a seed input.
type mutator struct {
	rng *rand.Rand
	buf []byte
}

func (m *mutator) next(seeds [][]byte) []byte {
	r := m.rng
	m.buf = append(m.buf[:0], seeds[r.IntN(len(seeds))]...)
	for range 1 + r.IntN(4) {
		n := len(m.buf)
		if n == 0 {
			m.buf = append(m.buf, byte(r.Uint32()))
			continue
		}
		at := r.IntN(n)
		switch r.IntN(6) {
		case 0:
			m.buf[at] ^= 1 << r.IntN(8)
		case 1:
			m.buf[at] = byte(r.Uint32())
		case 2:
			m.buf[at] = [...]byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
		case 3:
			m.buf = m.buf[:at]
		case 4:
			m.buf = append(m.buf[:at], m.buf[min(n, at+1+r.IntN(4)):]...)
		case 5:
			from := seeds[r.IntN(len(seeds))]
			m.buf = append(m.buf[:at], from[r.IntN(len(from)+1):]...)
		}
	}
	return m.buf
}

// TestMutations checks that no decoder panics or contradicts itself. Each decoder gets -executions mutated inputs.
func TestMutations(t *testing.T) {
	for _, tg := range slices.Concat(targets(), nodeTargets(), publicTargets()) {
		t.Run(tg.name, func(t *testing.T) {
			workers := runtime.GOMAXPROCS(0)
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					m, run := mutator{rng: rand.New(rand.NewPCG(*seed, uint64(w)))}, tg.run()
					for range *executions / workers {
						if why := attempt(run, m.next(tg.seeds)); why != "" {
							t.Errorf("%s\ninput %x", why, m.buf)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// attempt turns a panic into a failure text.
func attempt(run func([]byte) string, b []byte) (why string) {
	defer func() {
		if p := recover(); p != nil {
			why = fmt.Sprintf("panic: %v", p)
		}
	}()
	return run(b)
}

// A decoder may allocate memoryBase bytes plus memoryFactor bytes for each byte of its input. A decoded structure is
// larger than its encoding. The memory for encoding the structure again also counts.
const (
	memoryBase   = 1 << 20
	memoryFactor = 1024
)

// TestMemory checks that the memory that decoders allocate is proportional to the size of their input, regardless of
// the lengths that the input claims.
func TestMemory(t *testing.T) {
	for _, tg := range slices.Concat(targets(), nodeTargets(), publicTargets()) {
		t.Run(tg.name, func(t *testing.T) {
			m, run := mutator{rng: rand.New(rand.NewPCG(*seed, 99))}, tg.run()
			sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
			allocated := func() uint64 { metrics.Read(sample); return sample[0].Value.Uint64() }
			for range min(*executions, 3000) {
				b := bytes.Clone(m.next(tg.seeds))
				before := allocated()
				if why := attempt(run, b); why != "" {
					t.Fatalf("%s\ninput %x", why, b)
				}
				if took := allocated() - before; took > memoryBase+memoryFactor*uint64(len(b)) {
					t.Fatalf("%d bytes were allocated for an input of %d bytes\ninput %x", took, len(b), b)
				}
			}
		})
	}
}
