// SPDX-License-Identifier: Apache-2.0

package java

import (
	stdcontext "context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// expensive holds loops with built-ins that are expensive in comparison with the size of the results.
var expensive = map[string]string{
	"isBlank": `String s = " ".repeat(2000000); int n = 0; while (true) { if (s.isBlank()) n++; }`,
	"equalsIgnoreCase": `String s = "a".repeat(700000), t = "A".repeat(700000); int n = 0; while ` +
		`(true) { if (s.equalsIgnoreCase(t)) n++; }`,
	"format": `String s = "%n".repeat(700000); int n = 0; while (true) { n += ` +
		`String.format(s, 1).length(); }`,
	"matches": `String s = "x".repeat(1000); int n = 0; while (true) { if ` +
		`(s.matches("(x?){1000}".repeat(20))) n++; }`,
	"many matches": `String s = "x".repeat(1000); int n = 0; while (true) { if ` +
		`(s.matches("(x?y?z?){100}")) n++; }`,
	"split": `String s = "xy".repeat(1000); int n = 0; while (true) { n += ` +
		`s.split("y|(x?z){50}").length; }`,
	"add of decimals": `BigDecimal a = new BigDecimal("1E-20000"), b = new BigDecimal("1E20000"); ` +
		`int n = 0; while (true) { n += a.add(b).scale(); }`,
	"compare decimals": `BigDecimal a = new BigDecimal("1E-19000"), b = new ` +
		`BigDecimal("1E-19000"); int n = 0; while (true) { n += a.compareTo(b); }`,
	"mod": `BigInteger a = new BigInteger("7".repeat(20000)), b = a; int n = 0; while ` +
		`(true) { n += a.mod(b).signum(); }`,
	"pow": `BigInteger a = new BigInteger("7"); int n = 0; while (true) { n += a.pow(20000).signum(); }`,
	"toString": `BigInteger a = new BigInteger("7".repeat(20000)); int n = 0; while (true) ` +
		`{ n += a.toString().length(); }`,
	"doubleValue": `BigInteger a = new BigInteger("7".repeat(20000)); double n = 0; while ` +
		`(true) { n += a.doubleValue(); }`,
	"compareTo":       `String s = "", t = "ä".repeat(700000); int n = 0; while (true) { n += s.compareTo(t); }`,
	"compareTo, long": `String s = "ä".repeat(700000), t = s; int n = 0; while (true) { n += s.compareTo(t); }`,
	"keys of a map": `String s = "x".repeat(2000000); Map<String, Integer> m = new HashMap<>(); ` +
		`int n = 0; while (true) { m.put(s, n++); }`,
	"contains": `String s = "x".repeat(1000000), t = s + "", u = s + ""; List<String> l = ` +
		`new ArrayList<>(); l.add(t); int n = 0; while (true) { if (l.contains(u)) n++; }`,
	"replace": `String s = "x".repeat(2000000); int n = 0; while (true) { n += ` +
		`s.replace("y", "z").isEmpty() ? 1 : 0; }`,
	"last index": `String s = "x".repeat(2000000); int n = 0; while (true) { n += s.lastIndexOf("y"); }`,
	"strip":      `String s = " ".repeat(2000000); int n = 0; while (true) { n += s.strip().length(); }`,
}

func compiled(t *testing.T, body string) *Program {
	t.Helper()
	tInt := cqltype.Native(cqltype.Int)
	p, err := Compile(Signature{ArgNames: []string{"x"}, Args: []*cqltype.Type{tInt}, Returns: tInt, Body: body})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return p
}

// TestExpensive checks that the number of steps for a built-in depends on the size of the operands. Each endless loop
// must end within two million steps.
func TestExpensive(t *testing.T) {
	for name, body := range expensive {
		began := time.Now()
		_, err := compiled(t, body).Call(nil, [][]byte{{0, 0, 0, 1}})
		if err == nil || !strings.Contains(err.Error(), "the function was ended") {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, time.Since(began).Round(time.Millisecond))
	}
}

// TestEndsWithRequest checks that a call ends when the context or the deadline of the request ends. The call must end
// between two steps of any built-in. The request's meter must count the allocations of the call.
func TestEndsWithRequest(t *testing.T) {
	for name, body := range expensive {
		p := compiled(t, body)
		ctx, cancel := stdcontext.WithCancel(t.Context())
		cancel()
		_, err := p.Call(meter.New(ctx, meter.Limits{}), [][]byte{{0, 0, 0, 1}})
		if !errors.Is(err, stdcontext.Canceled) {
			t.Errorf("%s ends with %v after its client has gone", name, err)
		}
		late := errors.New("late")
		clock := func() time.Time { return time.Unix(2, 0) }
		l := meter.Limits{Deadline: time.Unix(1, 0), Clock: fakeclock.Func(clock), Late: late}
		if _, err := p.Call(meter.New(t.Context(), l), [][]byte{{0, 0, 0, 1}}); !errors.Is(err, late) {
			t.Errorf("%s ends with %v at its deadline", name, err)
		}
	}
	pool := meter.NewPool(4 << 20)
	m := meter.New(t.Context(), meter.Limits{Pool: pool})
	p := compiled(t, `List<Object> l = new ArrayList<>(); l.add("x".repeat(1000000)); for (int i = `+
		`0; i < 9; i++) { l.add("y".repeat(1000000)); } return l.size();`)
	if _, err := p.Call(m, [][]byte{{0, 0, 0, 1}}); err == nil || !strings.Contains(err.Error(), "large expressions") {
		t.Errorf("10 MB of a pool of 4 MB: %v", err)
	}
	m.Close()
	if pool.Used() != 0 {
		t.Errorf("%d bytes of the pool are left in use", pool.Used())
	}
}
