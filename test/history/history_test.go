// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// parse reads a history with one transaction per line, in the form "name begin end: r x=1 w x=2/1 w y=3". In this
// form, 2/1 is the value 2 written over 1, x= is an item that did not exist, and an end of - is an unknown outcome.
func parse(t *testing.T, text string) (out []Txn) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(text)) {
		head, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		var txn Txn
		var end string
		if _, err := fmt.Sscan(head, &txn.Name, &txn.Begin, &end); err != nil {
			t.Fatal(line, err)
		}
		if txn.End = Never; end != "-" {
			if _, err := fmt.Sscan(end, &txn.End); err != nil {
				t.Fatal(line, err)
			}
		}
		words := strings.Fields(rest)
		for i := 0; i+1 < len(words); i += 2 {
			item, value, _ := strings.Cut(words[i+1], "=")
			value, over, known := strings.Cut(value, "/")
			if v := (Version{item, value}); words[i] == "r" {
				txn.Reads = append(txn.Reads, v)
			} else {
				txn.Writes = append(txn.Writes, Write{v, over, known})
			}
		}
		out = append(out, txn)
	}
	return out
}

// TestVerdicts checks that each anomaly is found and named correctly, and that valid histories are accepted.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct{ name, history, want string }{
		{"one after the other", "a 1 2: r x= w x=1/\nb 3 4: r x=1 w x=2/1\nc 5 6: r x=2", ""},
		{"concurrent, in some order", "a 1 9: r x= w x=1/\nb 2 9: r x= r y=1\nc 3 8: w y=1/", ""},
		{"an unknown outcome", "a 1 -: w x=1/\nb 5 6: r x=\nc 7 8: r x=1", ""},
		{"two updates of one version", "a 1 9: r x= w x=1/\nb 2 9: r x= w x=2/", "lost update"},
		{"an update that did not see another", "a 1 9: r x= w x=1/\nb 2 9: r x= w x=2/1", "lost update"},
		{"half of a transaction", "a 1 9: w x=1/ w y=1/\nb 2 9: r x=1 r y=", "read skew"},
		{"two that saw neither's write", "a 1 9: r x= r y= w x=1/\nb 2 9: r x= r y= w y=1/", "write skew"},
		{"three of them", "a 1 9: r x= w y=1/\nb 2 9: r y= w z=1/\nc 2 9: r z= w x=1/", "write skew"},
		{"readers that differ about an order", "a 1 9: w x=1/\nb 1 9: w y=1/\nc 1 9: r x=1 r y=\nd 1 9: r x= r y=1",
			"long fork"},
		{"each precedes the other", "a 1 9: w x=1/ w y=2/1\nb 1 9: w x=2/1 w y=1/", "dirty write"},
		{"each saw the other", "a 1 9: r y=1 w x=1/\nb 1 9: r x=1 w y=1/", "circular information flow"},
		{"a read of an overwritten value", "a 1 2: r x= w x=1/\nb 3 4: r x=", "stale read"},
		{"a write before its time", "a 1 2: w x=1/\nb 3 4: w x=2/\n", "lost update"},
		{"an order against time", "a 1 2: w x=1/2\nb 3 4: w x=2/", "stale read"},
		{"done twice", "a 1 2: w x=1/\nb 3 4: w x=1/1", "version written twice"},
		{"out of nowhere", "a 1 2: r x=7", "read of an unwritten value"},
		{"an order that is not known", "a 1 9: r x= w x=1\nb 2 9: r x= w x=2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			v := Check(parse(t, c.history))
			if v != nil {
				got = v.Anomaly
				t.Log(v)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if v != nil && v.Snapshot == (got == "write skew" || got == "stale read") {
				t.Errorf("snapshot isolation %v", v)
			}
		})
	}
}

// TestSerialHistories checks that histories of a serial store are always accepted. For a store that reads from a
// snapshot and rejects only conflicting writes, only write skew must be reported.
func TestSerialHistories(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, snapshot := range []bool{false, true} {
			v := Check(random(rng, 120, snapshot))
			switch {
			case v == nil:
			case !snapshot:
				t.Errorf("seed %d: %v", seed, v)
			case v.Anomaly != "write skew":
				t.Errorf("seed %d, snapshots: %v", seed, v)
			}
		}
	}
}

// TestSkewIsFound checks that write skew is found in histories of a store that allows it.
func TestSkewIsFound(t *testing.T) {
	found := 0
	for seed := range uint64(4) {
		if Check(random(rand.New(rand.NewPCG(seed, 2)), 120, true)) != nil {
			found++
		}
	}
	if found != 4 {
		t.Errorf("found in %d of 4 histories", found)
	}
}

// random returns a history of a store with few items and concurrent transactions. If snapshots is set, a transaction
// reads the state at its start. The transaction is aborted if an item that it writes has changed since then.
func random(rng *rand.Rand, n int, snapshots bool) (out []Txn) {
	items := []string{"x", "y", "z"}
	now := map[string]string{}
	type open struct {
		Txn
		saw map[string]string
	}
	var under []open
	clock := int64(0)
	for len(out) < n {
		clock++
		if len(under) < 4 {
			o := open{Txn: Txn{Name: fmt.Sprint("t", clock), Begin: clock}, saw: map[string]string{}}
			for _, i := range items {
				o.saw[i] = now[i]
			}
			under = append(under, o)
			continue
		}
		at := rng.IntN(len(under))
		o := under[at]
		under = append(under[:at], under[at+1:]...)
		if !snapshots {
			for _, i := range items {
				o.saw[i] = now[i]
			}
		}
		from, to := items[rng.IntN(3)], items[rng.IntN(3)]
		if o.saw[to] != now[to] {
			continue
		}
		value := fmt.Sprint(clock)
		o.Reads = []Version{{from, o.saw[from]}, {to, o.saw[to]}}
		o.Writes = []Write{{Version{to, value}, now[to], true}}
		now[to] = value
		o.End = clock
		out = append(out, o.Txn)
	}
	return out
}
