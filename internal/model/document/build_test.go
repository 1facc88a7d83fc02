// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSystem checks that system properties can be added to a body and removed again byte for byte.
func TestSystem(t *testing.T) {
	s := &System{"rid==", "dbs/x/", `"0000-1"`, 1700000000, 0}
	const added = `"_rid":"rid==","_self":"dbs/x/","_etag":"\"0000-1\"","_attachments":"attachments/","_ts":1700000000`
	for body, want := range map[string]string{
		`{}`:                         `{` + added + `}`,
		`{ }`:                        `{` + added + `}`,
		`{"id":"a", "n": 1.0 }`:      `{"id":"a", "n": 1.0,` + added + `}`,
		"{\n  \"id\": \"a}\"\n}":     "{\n  \"id\": \"a}\"," + added + "}",
		`{"a":{"_rid":1},"b":[1,2]}`: `{"a":{"_rid":1},"b":[1,2],` + added + `}`,
	} {
		got := string(AppendItem(nil, []byte(body), s))
		if got != want {
			t.Errorf("%s became %s", body, got)
		}
		back := WithoutSystem(mustParse(t, got)).String()
		if strings.Join(strings.Fields(back), "") != strings.Join(strings.Fields(body), "") {
			t.Errorf("%s was decoded as %s", body, back)
		}
	}
	s.LSN = 7
	if got := string(AppendItem(nil, []byte("{}"), s)); got != `{`+added+`,"_lsn":7}` {
		t.Errorf("with lsn: %s", got)
	}
}

// TestMembersOneByOne checks that setting and removing members does not change the text of other members.
func TestMembersOneByOne(t *testing.T) {
	doc := mustParse(t, `{ "a" : 1.0, "b":[1 , 2],"\u0063":"x" , "d":{"e":1E5} }`)
	for _, c := range []struct{ got, want string }{
		{Without(doc, "a").String(), `{ "b":[1 , 2],"\u0063":"x" , "d":{"e":1E5} }`},
		{Without(doc, "c").String(), `{ "a" : 1.0, "b":[1 , 2],"d":{"e":1E5} }`},
		{Without(doc, "d").String(), `{ "a" : 1.0, "b":[1 , 2],"\u0063":"x" }`},
		{Without(doc, "a", "b", "c", "d").String(), `{}`},
		{Without(doc, "c", "d").String(), `{ "a" : 1.0, "b":[1 , 2]}`},
		{Without(doc, "z").String(), doc.String()},
		{With(doc, "b", NullValue).String(), `{ "a" : 1.0, "b":null,"\u0063":"x" , "d":{"e":1E5} }`},
		{With(doc, "c", NumberValue(2)).String(), `{ "a" : 1.0, "b":[1 , 2],"\u0063":2 , "d":{"e":1E5} }`},
		{With(doc, "z", StringValue("q")).String(), `{ "a" : 1.0, "b":[1 , 2],"\u0063":"x" , "d":{"e":1E5},"z":"q" }`},
		{With(mustParse(t, "{}"), "z", BooleanValue(true)).String(), `{"z":true}`},
		{With(mustParse(t, `{"t":true}`), "t", BooleanValue(false)).String(), `{"t":false}`},
		{With(NullValue, "z", NullValue).String(), `null`},
	} {
		if c.got != c.want {
			t.Errorf("\n got %s\nwant %s", c.got, c.want)
		}
	}
}

// TestWithIsWhatObjectsDo compares With and Without with operations on a list of members. It uses values in text form
// and in tree form.
func TestWithIsWhatObjectsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(2).Filter(func(v Value) bool { return v.Kind() == Object }).Draw(t, "object")
		name := rapid.SampledFrom([]string{"", "a", "b", "c", `"`, `\`, "zz"}).Draw(t, "name")
		m := anyValue(1).Draw(t, "member")
		text := mustParseString(v.String())
		if a, b := With(v, name, m), With(text, name, m); !Equal(a, b) || !Equal(a.Get(name), m) {
			t.Fatalf("%v with %s=%v: %v and %v", v, name, m, a, b)
		}
		if a, b := Without(v, name), Without(text, name); !Equal(a, b) || b.Get(name).IsDefined() {
			t.Fatalf("%v without %s: %v and %v", v, name, a, b)
		}
	})
}

// TestPatch checks the effect of each operation, and the texts of rejected operations.
func TestPatch(t *testing.T) {
	const doc = `{"id":"1","n":1.50,"tags":["a", "b"],"o":{"x":1,"/":2},"s":"t"}`
	for _, c := range []struct{ patch, want string }{
		{`[{"op":"add","path":"/color","value":"silver"}]`,
			`{"id":"1","n":1.50,"tags":["a", "b"],"o":{"x":1,"/":2},"s":"t","color":"silver"}`},
		{`[{"op":"add","path":"/n","value":2}]`, `{"id":"1","n":2,"tags":["a", "b"],"o":{"x":1,"/":2},"s":"t"}`},
		{`[{"op":"remove","path":"/o"},{"op":"remove","path":"/tags"}]`, `{"id":"1","n":1.50,"s":"t"}`},
		{`[{"op":"add","path":"/tags/0","value":{"k": 1}}]`,
			`{"id":"1","n":1.50,"tags":[{"k": 1},"a","b"],"o":{"x":1,"/":2},"s":"t"}`},
		{`{"operations":[{"op":"set","path":"/tags/0","value":1},{"op":"add","path":"/tags/-","value":2},
			{"op":"add","path":"/tags/3","value":3}]}`,
			`{"id":"1","n":1.50,"tags":[1,"b",2,3],"o":{"x":1,"/":2},"s":"t"}`},
		{`[{"op":"incr","path":"/n","value":-1},{"op":"incr","path":"/o/~1","value":3},
			{"op":"incr","path":"/new","value":9007199254740993},{"op":"incr","path":"/new","value":2}]`,
			`{"id":"1","n":0.5,"tags":["a", "b"],"o":{"x":1,"/":5},"s":"t","new":9007199254740995}`},
		{`[{"op":"replace","path":"/o/~1","value":null},{"op":"set","path":"/o/y","value":1}]`,
			`{"id":"1","n":1.50,"tags":["a", "b"],"o":{"x":1,"/":null,"y":1},"s":"t"}`},
		{`[{"op":"move","from":"/s","path":"/o/s"},{"op":"move","from":"/tags/0","path":"/first"}]`,
			`{"id":"1","n":1.50,"tags":["b"],"o":{"x":1,"/":2,"s":"t"},"first":"a"}`},
		{`[{"op":"remove","path":"/tags/0"},{"op":"remove","path":"/tags/0"}]`,
			`{"id":"1","n":1.50,"tags":[],"o":{"x":1,"/":2},"s":"t"}`},
		{`[{"op":"remove","path":"/none"}]`,
			`!For Operation(1): '/none' does not exist in the item, so 'remove' cannot be executed.`},
		{`[{"op":"set","path":"/n","value":1},{"op":"replace","path":"/none","value":1}]`,
			`!For Operation(2): '/none' does not exist in the item, so 'replace' cannot be executed.`},
		{`[{"op":"remove","path":"/tags/2"}]`,
			`!For Operation(1): '/tags/2' does not exist in the item, so 'remove' cannot be executed.`},
		{`[{"op":"add","path":"/tags/3","value":1}]`,
			`!For Operation(1): '/tags/3' is past the end of the array, which has 2 elements.`},
		{`[{"op":"add","path":"/tags/x","value":1}]`,
			`!For Operation(1): '/tags/x' does not specify an element of the array: use an index, or - for the end.`},
		{`[{"op":"add","path":"/q/x","value":1}]`,
			`!For Operation(1): The parent of '/q/x' does not exist in the item. Add 'q' first.`},
		{`[{"op":"incr","path":"/s","value":1}]`,
			`!For Operation(1): '/s' is not a number, so 'incr' cannot add to it.`},
		{`[{"op":"incr","path":"/n","value":"1"}]`, `!For Operation(1): 'incr' requires a number as its value.`},
		{`[{"op":"add","path":"/n"}]`, `!For Operation(1): 'add' requires a value.`},
		{`[{"op":"move","from":"/o","path":"/o/x"}]`, `!For Operation(1): '/o' cannot be moved into itself.`},
		{`[{"op":"move","from":"/none","path":"/o/x"}]`,
			`!For Operation(1): '/none' does not exist in the item, so 'remove' cannot be executed.`},
		{`[{"op":"set","path":"/_ts","value":1}]`,
			`!For Operation(1): '/_ts' is a system property and cannot be patched.`},
		{`[{"op":"set","path":"n","value":1}]`,
			`!For Operation(1): the path 'n' must start with / and specify a property.`},
		{`[{"op":"test","path":"/n","value":1}]`,
			`!For Operation(1): Unknown operation 'test': use add, set, replace, remove, incr, or move.`},
		{`[]`, `!A patch must have at least one operation.`},
		{`[0,0,0,0,0,0,0,0,0,0,0]`,
			`!For Operation(1): Unknown operation '': use add, set, replace, remove, incr, or move.`},
		{`{}`, `!A patch must be an array of operations, or an object with the array as 'operations'.`},
		{`{"condition":1,"operations":[]}`, `!The condition of a patch must be a string.`},
	} {
		ops, _, err := ParsePatch(mustParse(t, c.patch))
		var v Value
		if err == nil {
			v, err = Patch(mustParse(t, doc), ops)
		}
		got := v.String()
		if err != nil {
			got = "!" + err.Error()
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.patch, got, c.want)
		}
	}
	eleven := `[` + strings.Repeat(`{"op":"remove","path":"/a"},`, 10) + `{"op":"remove","path":"/a"}]`
	_, _, err := ParsePatch(mustParse(t, eleven))
	if err == nil || err.Error() != "A patch cannot have more than 10 operations." {
		t.Errorf("eleven operations: %v", err)
	}
	_, condition, _ := ParsePatch(mustParse(t, `{"condition":"from c where c.n = 1",
		"operations":[{"op":"remove","path":"/n"}]}`))
	if condition != "from c where c.n = 1" {
		t.Errorf("the condition is %q", condition)
	}
}

// BenchmarkGet measures the lookup of a member in the middle of a 1 KB item. A query filter makes such a lookup for
// each item.
func BenchmarkGet(b *testing.B) {
	text := []byte(`{"id":"item-000001","pk":"Beef Products","description":"` + strings.Repeat("lorem ipsum ", 30) +
		`","n":12345,"o":{"a":[1,2,3],"b":"c"},"price":12.5,"tags":["x","y","z"],"rest":"` + strings.Repeat("r", 400) + `"}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if View(text).Get("price").Float() != 12.5 {
			b.Fatal("not found")
		}
	}
}
