// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// noon is the beginning of a minute.
const noon = 1_800_000_000

// zipf draws keys. The frequency of the i-th key is proportional to 1/i^0.99.
type zipf struct {
	sums []float64
	rand *rand.Rand
	// guide divides the requests into len(guide) equal parts and contains the first key of each part. It speeds up the
	// search for other keys.
	guide []int
}

func newZipf(keys int, seed uint64) *zipf {
	z := &zipf{sums: make([]float64, keys), rand: rand.New(rand.NewPCG(seed, 7)), guide: make([]int, 1<<16+1)}
	sum := 0.
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -0.99)
		z.sums[i] = sum
	}
	for i, g := 0, 0; g < len(z.guide); g++ {
		for i < keys-1 && z.sums[i] < sum*float64(g)/(1<<16) {
			i++
		}
		z.guide[g] = i
	}
	return z
}

func (z *zipf) draw() int {
	at := z.rand.Float64()
	x, i := at*z.sums[len(z.sums)-1], z.guide[int(at*(1<<16))]
	end := min(z.guide[int(at*(1<<16))+1]+1, len(z.sums))
	return i + sort.SearchFloat64s(z.sums[i:end], x)
}

// tokenOf returns the token of the i-th key.
func tokenOf(i int) token.Token { return token.Token(mix64(uint64(i + 1))) }

// TestTopTen checks that the ten hottest of a million logical partitions are reported in order after a minute, with a
// Zipf distribution of exponent 0.99. The test covers the cases where every request is counted, where requests are
// sampled, and where prices differ. The reported error bounds must be correct.
func TestTopTen(t *testing.T) {
	z := newZipf(1e6, 1)
	for _, c := range []struct {
		name      string
		perSecond int
		seconds   int64
		price     func(i int) ru.Units
	}{
		{"point reads, 10,000 a second", 10_000, 59, func(int) ru.Units { return ru.Unit }},
		{"point reads, 50,000 a second", 50_000, 25, func(int) ru.Units { return ru.Unit }},
		{"a mix of prices", 10_000, 30, func(i int) ru.Units {
			return ru.Unit * ru.Units([...]int{1, 5, 1, 1, 40, 7}[i%6]) / 3
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, of := new(Partition), make([]ru.Units, len(z.sums))
			for s := range c.seconds {
				for i := range c.perSecond {
					key, price := z.draw(), c.price(i)
					of[key] += price
					p.RecordRead(Point, tokenOf(key), nil, price, 1, 100)
				}
				p.Tick(noon+s+1, Bounds{})
			}
			minutes := p.Minutes()
			if len(minutes) != 1 {
				t.Fatalf("%d minutes", len(minutes))
			}
			first := make([]int, 100) // the first keys, which contain the ten hottest keys
			for i := range first {
				first[i] = i
			}
			slices.SortFunc(first, func(a, b int) int { return cmp.Compare(of[b], of[a]) })
			top := minutes[0].Top
			for i, h := range top.Keys {
				is := of[first[i]]
				if h.Token != tokenOf(first[i]) {
					t.Errorf("place %d: %v RU +- %v; want one of %v", i+1, h.Units, h.Over, is)
				} else if is < h.Units-h.Over-h.Noise || is > h.Units+h.Noise {
					t.Errorf("place %d: %v RU is not %v - %v, +- %v", i+1, is, h.Units, h.Over, h.Noise)
				}
			}
			t.Logf("the tenth has %v RU, too high by %v at most, noise %v; floor %v, step %v", top.Keys[9].Units,
				top.Keys[9].Over, top.Keys[9].Noise, top.Floor, ru.Units(p.step.Load()))
			if hot := p.Hottest(3, nil).Keys; hot[0].Token != tokenOf(0) || hot[1].Token != tokenOf(1) {
				t.Errorf("the hottest now: %+v", hot)
			}
		})
	}
}

// TestBounds checks the error bounds for any sequence of requests (UF2). A reported value must never be too low, and
// must be too high by at most its reported error. A partition that is not reported must have used at most the floor.
// The bounds must also be correct across minutes.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := new(Partition)
		keys := rapid.IntRange(1, 3000).Draw(t, "keys")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for minute := range int64(3) {
			of := map[token.Token]ru.Units{}
			for range rapid.IntRange(1, 5000).Draw(t, "requests") {
				i := int(float64(keys) * math.Pow(random.Float64(), 3))
				tok, price := tokenOf(i), ru.Units(1+random.IntN(1000))
				of[tok] += price
				p.RecordWrite(Write, tok, price, 1)
			}
			p.Tick(noon+60*minute+1, Bounds{})
			top := p.Hottest(ways<<setBits, nil)
			for _, h := range top.Keys {
				if is := of[h.Token]; is > h.Units || is < h.Units-h.Over {
					t.Fatalf("%d is not between %d and %d", is, h.Units-h.Over, h.Units)
				}
				delete(of, h.Token)
			}
			for _, is := range of {
				if is > top.Floor {
					t.Fatalf("%d is not reported, above %d", is, top.Floor)
				}
			}
			p.Tick(noon+60*(minute+1), Bounds{})
		}
	})
}

// TestSampledTurns checks that samples are fair if clients send requests in turn, and that expensive requests are
// always recorded.
func TestSampledTurns(t *testing.T) {
	p, of := new(Partition), map[token.Token]ru.Units{}
	for s := range int64(5) {
		for i := range 200_000 {
			tok, price := tokenOf(i%4), ru.Unit
			if i%50_000 == 0 {
				tok, price = tokenOf(4), 1000*ru.Unit
			}
			of[tok] += price
			p.RecordRead(Point, tok, nil, price, 1, 1)
		}
		p.Tick(noon+s+1, Bounds{})
	}
	if step := p.step.Load(); step < 2*int64(ru.Unit) {
		t.Fatalf("nothing is sampled: %d", step)
	}
	for _, h := range p.Hottest(5, nil).Keys {
		if off := math.Abs(float64(h.Units-of[h.Token])) / float64(of[h.Token]); off > 0.02 {
			t.Errorf("%v instead of %v RU", h.Units, of[h.Token])
		}
	}
}

// TestKeys checks that the key of an expensive read is kept, even if the read finds nothing, and removed with its
// counter.
func TestKeys(t *testing.T) {
	p := new(Partition)
	for i := range 1000 {
		key := fmt.Append(nil, "other", i)
		p.RecordRead(Point, token.Hash(key), key, ru.Unit, 1, 1)
		p.RecordRead(Point, token.Hash([]byte("hot")), []byte("hot"), ru.Unit, 0, 0)
		p.Tick(noon+int64(i)/20, Bounds{})
	}
	isHot := func(tok token.Token) bool { return tok == token.Hash([]byte("hot")) }
	if top := p.Hottest(1, isHot); len(top.Keys) != 1 || string(top.Keys[0].Key) != "hot" {
		t.Errorf("%+v", top)
	}
	for i := range 200_000 {
		p.RecordRead(Point, tokenOf(i), nil, 10*ru.Unit, 1, 1)
	}
	if n := len(p.heavy.named); n > namedMax {
		t.Errorf("%d keys are kept", n)
	}
	for place := range p.heavy.named {
		if !slices.ContainsFunc(p.heavy.sets[:], func(s set) bool { return slices.Contains(s.place[:], place) }) {
			t.Errorf("the key of %x is kept, which has no counter", place)
		}
	}
}

// TestAllocations checks that recording a request allocates nothing (UF3).
func TestAllocations(t *testing.T) {
	p, i := new(Partition), 0
	p.RecordRead(Point, 1, nil, ru.Unit, 1, 1)
	if n := testing.AllocsPerRun(10_000, func() {
		i++
		p.RecordRead(Point, token.Token(i*i), nil, ru.Unit, 1, 100)
		p.RecordWrite(Write, token.Token(i%7+1), 5*ru.Unit, 100)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkNote measures the cost per request of recording all requests, with keys of a Zipf distribution, and of
// recording few requests.
func BenchmarkNote(b *testing.B) {
	tokens := make([]token.Token, 1<<16)
	z := newZipf(1e6, 1)
	for i := range tokens {
		tokens[i] = tokenOf(z.draw())
	}
	for name, all := range map[string]bool{"all": true, "sampled": false} {
		b.Run(name, func(b *testing.B) {
			p, i := new(Partition), 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				p.RecordRead(Point, tokens[i%len(tokens)], nil, ru.Unit, 1, 100)
				if all && i%notesMax == 0 {
					p.step.Store(0)
				}
			}
		})
	}
}

// BenchmarkTick measures the cost of Tick for a busy partition.
func BenchmarkTick(b *testing.B) {
	p, z, now := new(Partition), newZipf(1e5, 1), int64(noon)
	for range 1 << 15 {
		p.RecordRead(Point, tokenOf(z.draw()), nil, ru.Unit, 1, 100)
	}
	for b.Loop() {
		now++
		p.RecordRead(Point, 1, nil, ru.Unit, 1, 100)
		p.Tick(now, Bounds{})
	}
}
