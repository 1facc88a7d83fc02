// SPDX-License-Identifier: Apache-2.0

package cqltype

import "testing"

// TestSum checks the sums of all types. Integers wrap around, floats are added at their own width, and decimals keep
// the larger scale. Texts are concatenated. An empty number is null, and a sum that is too long is rejected.
func TestSum(t *testing.T) {
	const tooFar = "1E-30000"
	for _, c := range []struct {
		kind       Kind
		a, b, want string
	}{
		{Tinyint, "127", "1", "-128"}, {Smallint, "5", "-7", "-2"}, {Int, "2147483647", "1", "-2147483648"},
		{Bigint, "9223372036854775807", "1", "-9223372036854775808"},
		{Varint, "9223372036854775807", "1", "9223372036854775808"},
		{Float, "1.5", "0.25", "1.75"}, {Double, "0.1", "0.2", "0.30000000000000004"},
		{Decimal, "1.50", "0.005", "1.505"},
		{Decimal, "1", "-1.0", "0.0"}, {Text, "ab", "c", "abc"}, {Ascii, "", "", ""}, {Int, "", "1", "null"},
		{Decimal, tooFar, "1", "refused"}, {UUID, "", "", "refused"},
	} {
		typ := Native(c.kind)
		wire := func(text string) []byte {
			if text == "" {
				return []byte{}
			}
			kind := IntegerConst
			switch c.kind {
			case Float, Double, Decimal:
				kind = FloatConst
			case Text, Ascii:
				kind = StringConst
			}
			v, err := typ.FromConstant(kind, text)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		sum, ok := typ.Kind.Sum(wire(c.a), wire(c.b))
		got := "refused"
		switch {
		case ok && sum == nil:
			got = "null"
		case ok:
			got = typ.Text(sum)
		}
		if got != c.want {
			t.Errorf("%s: %s + %s = %s, want %s", typ, c.a, c.b, got, c.want)
		}
		if typ.Kind.Sums() != (c.kind != UUID) {
			t.Errorf("%s sums: %v", typ, typ.Kind.Sums())
		}
	}
}
