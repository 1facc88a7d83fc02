// SPDX-License-Identifier: Apache-2.0

package java

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

var (
	testInt    = cqltype.Native(cqltype.Int)
	testBigint = cqltype.Native(cqltype.Bigint)
	testText   = cqltype.Native(cqltype.Text)
	testDouble = cqltype.Native(cqltype.Double)
	testTuple  = cqltype.TupleOf(testInt, testText)
	testUDT    = cqltype.UDTOf("ks", "u", []string{"a", "b"}, []*cqltype.Type{testInt, testText})
	testTypes  = map[string]*cqltype.Type{
		"i": testInt, "l": testBigint, "s": testText, "d": testDouble, "li": cqltype.ListOf(testInt),
		"m": cqltype.MapOf(testText, testInt), "st": cqltype.SetOf(testText), "tu": testTuple, "u": testUDT,
		"sh": cqltype.Native(cqltype.Smallint), "ts": cqltype.Native(cqltype.Timestamp),
		"bo": cqltype.Native(cqltype.Boolean),
		"bl": cqltype.Native(cqltype.Blob), "vi": cqltype.Native(cqltype.Varint), "de": cqltype.Native(cqltype.Decimal),
		"id": cqltype.Native(cqltype.UUID), "da": cqltype.Native(cqltype.Date), "f": cqltype.Native(cqltype.Float),
		"ve": cqltype.VectorOf(cqltype.Native(cqltype.Float), 2),
	}
	testValues = map[string]string{"i": "7", "l": "9007199254740993", "s": "'abc'", "d": "1.5", "li": "[1, 2, 3]",
		"m": "{'x': 1, 'y': 2}", "st": "{'p', 'q'}", "tu": "(5, 'five')", "u": "{a: 1, b: 'x'}", "sh": "5",
		"bo": "true",
		"bl": "0xcafe", "vi": "99999999999999999999", "de": "1.25", "f": "2.5", "ve": "[1, 2]", "ts": "1577934245000",
		"id": "123e4567-e89b-12d3-a456-426614174000", "da": "'2020-01-02'"}
)

// wireOf returns a test value in wire format.
func wireOf(t *testing.T, name string) []byte {
	typ := testTypes[name]
	switch name {
	case "li":
		return typ.AppendCollection(nil, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 2}, []byte{0, 0, 0, 3})
	case "m":
		return typ.AppendCollection(nil, []byte("x"), []byte{0, 0, 0, 1}, []byte("y"), []byte{0, 0, 0, 2})
	case "st":
		return typ.AppendCollection(nil, []byte("p"), []byte("q"))
	case "tu":
		return typ.AppendTuple(nil, []byte{0, 0, 0, 5}, []byte("five"))
	case "u":
		return typ.AppendTuple(nil, []byte{0, 0, 0, 1}, []byte("x"))
	case "ve":
		f := cqltype.Native(cqltype.Float)
		return typ.AppendVector(nil, f.Kind.FromFloat64(1), f.Kind.FromFloat64(2))
	case "bl":
		return []byte{0xca, 0xfe}
	}
	wire, err := typ.FromText(strings.Trim(testValues[name], "'"))
	if err != nil {
		t.Fatal(name, err)
	}
	return wire
}

// call compiles and calls a body. The arguments are the test values. The arguments in null are null.
func call(t *testing.T, returns, body string, nulls bool, null ...string) (string, error) {
	t.Helper()
	s := Signature{Returns: testTypes[returns], Nulls: nulls, Body: body}
	var args [][]byte
	for _, name := range slices.Sorted(maps.Keys(testTypes)) {
		if !strings.Contains(body, name) {
			continue
		}
		s.ArgNames, s.Args = append(s.ArgNames, name), append(s.Args, testTypes[name])
		wire := wireOf(t, name)
		for _, n := range null {
			if n == name {
				wire = nil
			}
		}
		args = append(args, wire)
	}
	p, err := Compile(s)
	if err != nil {
		return "", err
	}
	out, err := p.Call(nil, args)
	if err != nil {
		return "", err
	}
	if out == nil {
		return "null", nil
	}
	if err := testTypes[returns].Validate(out); err != nil {
		t.Errorf("%s returns what is not valid: %v", body, err)
	}
	return testTypes[returns].Format(out), nil
}

// TestBodies checks the results of function bodies. If Cassandra 5.0.5 accepts a body, the result must be the same as
// in Cassandra.
func TestBodies(t *testing.T) {
	for _, c := range []struct{ returns, body, want string }{
		{"i", "return i + 1;", "8"},
		{"i", "return i == null ? -1 : i * 2;", "14"},
		{"i", "return Integer.MAX_VALUE + 1;", "-2147483648"},
		{"l", "return l + 1;", "9007199254740994"},
		{"l", "return Long.MAX_VALUE + 1;", "-9223372036854775808"},
		{"i", "int a = 1000000; return a * a;", "-727379968"},
		{"l", "int a = 1000000; return (long) a * a;", "1000000000000"},
		{"s", `return String.valueOf(i) + i + 1.0 + 1f + true + null + (char) 65 + 1L + 1e10 + 1e-5;`,
			"'771.01.0truenullA11.0E101.0E-5'"},
		{"s", `return "" + d + d / 0 + (int) (d * 1e300) + (long) (0.0/0.0) + (5 / 2) + (-5 / 2) + (-5 % 3) + (1 << 33)` +
			` + (-1 >>> 28) + Integer.MAX_VALUE + (Integer.MAX_VALUE + 1) + Math.round(2.5) + Math.round(-2.5)` +
			` + Math.abs(-3) + Math.pow(2, 10);`,
			"'1.5Infinity214748364702-2-22152147483647-21474836483-231024.0'"},
		{"i", "int x = 0; for (Integer e : li) x += e; return x;", "6"},
		{"i", "int x = 0; for (int e : li) x += e; return x;", "6"},
		{"i", "int x = 0; for (int k = 0; k < li.size(); k++) x += li.get(k) * k; return x;", "8"},
		{"i", "int x = 0; for (Object e : m.values()) x += (Integer) e; return x;", "3"},
		{"m", `m.put("z", 5); return m;`, "{'x': 1, 'y': 2, 'z': 5}"},
		{"li", "li.add(5); return li;", "[1, 2, 3, 5]"},
		{"s", `String r = ""; for (java.util.Map.Entry<String,Integer> e : m.entrySet()) r += e.getKey() + e.getValue(); ` +
			`return r;`, "'x1y2'"},
		{"li", "List<Integer> o = new java.util.ArrayList<Integer>(); o.add(i); return o;", "[7]"},
		{"li", "List<Integer> o = new ArrayList<>(); o.add(i); return o;", "[7]"},
		{"s", `return d + "|" + li + m + st + tu + u;`, "'1.5|[1, 2, 3]{x=1, y=2}[p, q](5, ''five''){a: 1, b: ''x''}'"},
		{"s", `return ts + "|" + da + "|" + id + "|" + bl + "|" + de + "|" + vi;`, "'Thu Jan 02 03:04:05 UTC 2020|2020-01-02|" +
			"123e4567-e89b-12d3-a456-426614174000|java.nio.HeapByteBuffer[pos=0 lim=2 cap=2]|1.25|99999999999999999999'"},
		{"s", "return tu.getString(1);", "'five'"},
		{"tu", "tu.setInt(0, tu.getInt(0) + 1); return tu;", "(6, 'five')"},
		{"u", `UDTValue v = udfContext.newReturnUDTValue(); v.setInt("a", i); v.setString("b", s); return v;`,
			"{a: 7, b: 'abc'}"},
		{"i", `return u.getInt("a");`, "1"},
		{"s", `return s.toUpperCase().substring(1, 3) + s.indexOf("c") + s.charAt(0) + s.length();`, "'BC2a3'"},
		{"s", `StringBuilder b = new StringBuilder(); for (int k = s.length() - 1; k >= 0; k--) b.append(s.charAt(k)); ` +
			`return b.toString();`, "'cba'"},
		{"i", "try { return 1 / (i - 7); } catch (ArithmeticException e) { return -1; }", "-1"},
		{"i", "int k = 0; while (true) { if (k > 5) break; k++; } return k;", "6"},
		{"i", "int k = 0; do { k += 2; if (k == 4) continue; } while (k < 9); return k;", "10"},
		{"sh", "return (short) (sh + 1);", "6"},
		{"l", "return i;", "strict 7"},
		{"d", "return Math.sqrt(i * 7);", "7.0"},
		{"i", "int[] a = {3, 1, 2}; int x = 0; for (int e : a) x = x * 10 + e; return x;", "312"},
		{"s", `return s.equals("abc") && !s.isEmpty() ? "yes" : "no";`, "'yes'"},
		{"s", `String[] p = "a,b,,".split(","); return p.length + p[1];`, "'2b'"},
		{"i", "char c = 'a'; c += 1; return c == 'b' ? (int) c : 0;", "98"},
		{"i", "int x = 5; int y = x++ + ++x; return y * 100 + x;", "1207"},
		{"vi", "return vi.add(java.math.BigInteger.valueOf(1));", "100000000000000000000"},
		{"de", `return de.multiply(new java.math.BigDecimal("2.0"));`, "2.500"},
		{"ve", "return ve;", "[1.0, 2.0]"},
		{"st", `st.remove("p"); st.add("a"); return st;`, "{'a', 'q'}"},
		{"s", `return String.format("%05d|%.2f|%s", i, d, s);`, "'00007|1.50|abc'"},
		{"i", "return s.hashCode();", "96354"},
		{"bo", "return i instanceof Integer && l > 5;", "true"},
		{"i", "Integer a = 1000, b = 1000; return a == b ? 1 : a.equals(b) ? 2 : 3;", "2"},
		{"i", "final int k = 3; { int j = k; return j; }", "3"},
		{"i", "long x = 1L << 40; return (int) (x >> 38) + (byte) 300;", "48"},
	} {
		want, strict := strings.CutPrefix(c.want, "strict ")
		if got, err := call(t, c.returns, c.body, !strict); err != nil || got != want {
			t.Errorf("%s\n gives %s, %v\nwant %s", c.body, got, err, want)
		}
	}
}

// TestThrown checks the exceptions of bodies. The expected texts are from Cassandra 5.0.5.
func TestThrown(t *testing.T) {
	for body, want := range map[string]string{
		`throw new RuntimeException("boom");`: "java.lang.RuntimeException: boom",
		"return 1 / (i - i);":                 "java.lang.ArithmeticException: / by zero",
		"int[] a = new int[2]; return a[5];":  "java.lang.ArrayIndexOutOfBoundsException: Index 5 out of bounds for length 2",
		"return s.substring(10).length();":    "java.lang.StringIndexOutOfBoundsException: begin 10, end 3, length 3",
		"return Integer.parseInt(s);":         `java.lang.NumberFormatException: For input string: "abc"`,
		"return li.get(9);":                   "java.lang.IndexOutOfBoundsException: Index 9 out of bounds for length 3",
		"Object o = s; return (Integer) o;": "java.lang.ClassCastException: class java.lang.String " +
			"cannot be cast to class java.lang.Integer",
	} {
		if _, err := call(t, "i", body, true); err == nil || err.Error() != want {
			t.Errorf("%s throws %v, want %s", body, err, want)
		}
	}
	want := `java.lang.NullPointerException: Cannot invoke "java.lang.Integer.intValue()" because "<parameter1>" is null`
	if _, err := call(t, "i", "return i + 1;", true, "i"); err == nil || err.Error() != want {
		t.Errorf("null throws %v", err)
	}
}

// TestErrors checks the errors for bodies that do not compile. The texts of the first errors are from Cassandra 5.0.5.
func TestErrors(t *testing.T) {
	for body, want := range map[string]string{
		"return nosuch;": "Line 1: nosuch cannot be resolved to a variable",
		`return "text";`: "Line 1: Type mismatch: cannot convert from String to Integer",
		`java.io.File f = new java.io.File("/tmp"); return 1;`: "Line 1: java.io.File cannot be resolved to a type\n" +
			"Line 1: java.io.File cannot be resolved to a type",
		"Thread.sleep(1); return 1;": "Line 1: Thread cannot be resolved",
		"String x = 5; return x.foo();": "Line 1: Type mismatch: cannot convert from int to String\n" +
			"Line 1: The method foo() is undefined for the type String",
		"return i":                                    `Line 1: Syntax error, insert ";" to complete BlockStatements`,
		"return 1; return 2;":                         "Line 1: Unreachable code",
		"return 1L;":                                  "Line 1: Type mismatch: cannot convert from long to Integer",
		"if (i > 1) return 1;":                        "Line 1: This method must return a result of type Integer",
		"return li.stream().count();":                 "The method List.stream is not supported",
		"\nswitch (i) { }":                            "Line 2: switch is not supported",
		"Runnable r = () -> 1;":                       "is not supported",
		"return new int[2][3];":                       "An array of arrays is not supported",
		"synchronized (s) { }":                        "synchronized is not supported",
		"return this.hashCode();":                     "this is not supported",
		"java.util.regex.Pattern p = null; return 1;": "The class java.util.regex.Pattern is not supported",
		"return java.lang.System.exit(1);":            "java.lang.System cannot be resolved to a type",
		"Class c = null; return 1;":                   "Class cannot be resolved to a type",
		"return " + strings.Repeat("(", 500) + "1" + strings.Repeat(")", 500) + ";": "deep in each other",
	} {
		_, err := call(t, "i", body, true)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s\n gives %v\nwant %s", body, err, want)
		}
	}
}

// TestHostile checks (J2). Calls of bodies that loop indefinitely or use too much memory must end.
func TestHostile(t *testing.T) {
	for _, body := range []string{
		"while (i > 0) { } return 1;",
		"for (;;) { }",
		`String x = "ab"; while (true) { x += x; }`,
		"java.util.List l2 = new java.util.ArrayList(); while (true) { l2.add(l2); }",
		"java.util.List l2 = new java.util.ArrayList(); l2.add(l2); return l2.hashCode();",
		"java.util.List l2 = new java.util.ArrayList(); l2.add(l2); return l2.toString().length();",
		"java.util.Map l2 = new java.util.HashMap(); while (true) { l2.put(l2.size(), s); }",
		`StringBuilder b = new StringBuilder("x"); while (true) { b.append(b); }`,
		"java.math.BigInteger b = java.math.BigInteger.TEN; while (true) { b = b.multiply(b); }",
		"return java.math.BigInteger.TEN.pow(2000000000).signum();",
		"int[] a = new int[2000000000]; return 1;",
		`return "x".repeat(2000000000).length();`,
		`String x = "a".repeat(2000000); while (true) { x.length(); x.charAt(5); x.indexOf("b"); }`,
		`String x = "\u00e4".repeat(900000); while (true) { x.charAt(5); }`,
		`String x = "a".repeat(100000); while (true) { x.matches("(a+)+b"); }`,
		`return "aaa".replaceAll("a", "b".repeat(1999999)).length();`,
		"try { while (true) { } } finally { while (true) { } }",
		"while (true) { try { while (true) { } } catch (Throwable t) { } }",
		`return String.format("%999999999d", i).length();`,
	} {
		_, err := call(t, "i", body, true)
		if err == nil || !strings.Contains(err.Error(), "the function was ended") &&
			!strings.Contains(err.Error(), "is not supported") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
