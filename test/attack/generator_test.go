// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"fmt"
	"slices"
	"strings"
)

// attacks returns requests that amplify small inputs. It covers each constructor of CQL and of the containers' SQL.
func attacks() []*attack { return slices.Concat(cqlAttacks(), sqlAttacks(), textAttacks()) }

// cqlAttacks returns requests that inflate values of one row of big.t.
func cqlAttacks() (out []*attack) {
	add := func(brief bool, name, selection, where string) {
		out = append(out, &attack{name: "CQL " + name, brief: brief,
			text: "SELECT " + selection + " FROM big.t " + where})
	}
	const one, two, three = "WHERE p = 1 AND c = 1", "WHERE p = 2 AND c = 1", "WHERE p = 3 AND c = 1"
	add(true, "column repeated", many(1_000, ",", "v AS a%d"), one)
	add(false, "column repeated more", many(20_000, ",", "v AS a%d"), one)
	add(true, "column repeated in JSON", "JSON "+many(1_000, ",", "v AS a%d"), one)
	add(false, "rows of a partition", many(1_000, ",", "v AS a%d"), "WHERE p = 1")
	add(false, "sorted rows", many(200, ",", "v AS a%d"), "WHERE p IN (1, 2, 3) ORDER BY c")
	// Each wrapper creates a larger value from a value. The attacks repeat and nest wrappers.
	wrappers := []struct{ name, open, end string }{
		{"to_json", "to_json(", ")"},
		{"concatenation", "", " + v"},
		{"list", "[", "]"},
		{"cast", "CAST(", " AS text)"},
		{"upper case of blobs", "text_as_blob(blob_as_text(", "))"},
		{"mask", "mask_inner(", ", 1, 1)"},
		{"mask replaced", "mask_outer(", ", 1, 1)"},
		{"hash", "mask_hash(", ")"},
		{"Java function", "big.longer(", ")"},
		{"JavaScript function that makes objects", "big.array(", ")"},
		{"JavaScript function that makes texts", "big.string(", ")"},
		{"JavaScript function that never ends", "big.spin(", ")"},
		{"Java function that makes a list", "big.list(", ")"},
	}
	for i, w := range wrappers {
		add(i == 0, w.name+" repeated", many(500, ",", w.open+"v"+w.end+" AS a%d"), one)
		add(false, w.name+" of a short text", many(500, ",", w.open+"v"+w.end+" AS a%d"), three)
		add(false, w.name+" nested", strings.Repeat(w.open, 20)+"v"+strings.Repeat(w.end, 20), one)
		add(false, w.name+" nested in JSON", "JSON "+strings.Repeat(w.open, 20)+"v"+strings.Repeat(w.end, 20), three)
		for _, o := range wrappers[:5] {
			nested := strings.Repeat(w.open+o.open, 8) + "v" + strings.Repeat(o.end+w.end, 8)
			add(false, w.name+" in "+o.name, nested+" AS a, "+nested+" AS b", three)
		}
	}
	add(true, "list of the column", "["+many(2_000, ",", "v")+"]", one)
	add(false, "set of the column", "(set<text>){"+many(2_000, ",", "v + 'x%d'")+"}", one)
	add(false, "map of the column", "(map<int, text>){"+many(2_000, ",", "%d: v")+"}", one)
	add(false, "tuple of the column", "("+many(2_000, ",", "v")+")", one)
	add(false, "long concatenation", many(2_000, " + ", "v"), one)
	add(false, "aggregates", many(1_000, ",", "max(v) AS a%d"), "WHERE p = 1")
	add(false, "aggregates of functions", many(500, ",", "max(to_json(v)) AS a%d"), "WHERE p = 1")
	add(false, "groups", "p, c, "+many(500, ",", "max(v) AS a%d"), "GROUP BY p, c")
	add(false, "JSON of collections", many(500, ",", "to_json(l) AS a%d"), two)
	add(false, "collection functions", many(500, ",", "map_keys(m) AS a%d")+","+many(500, ",", "map_values(m) AS b%d"),
		two)
	add(false, "elements", many(2_000, ",", "m[%[1]d] AS a%[1]d"), two)
	add(false, "slices", many(500, ",", "m[0..100000] AS a%d"), two)
	add(false, "minima of collections", many(2_000, ",", "collection_max(l) AS a%d"), two)
	add(true, "powers", strings.Repeat("i * ", 500)+"i", one)
	add(false, "powers repeated", many(500, ",", "i * i * i * i * i * i * i * i AS a%d"), one)
	add(false, "decimals", many(500, ",", "d / 3 + i AS a%d"), one)
	add(false, "sums of decimals", many(500, ",", "sum(d) AS a%d"), "WHERE p = 1")
	add(false, "filters", "p", "WHERE "+many(2_000, " AND ", "m CONTAINS '%d'")+" ALLOW FILTERING")
	add(false, "a filter for many values", "p", "WHERE v IN ("+many(20_000, ",", "'%d'")+") ALLOW FILTERING")
	add(false, "nested calls", strings.Repeat("to_json(", 60)+"c"+strings.Repeat(")", 60), one)
	add(false, "nested extremes", strings.Repeat("collection_max([", 60)+"c"+strings.Repeat("])", 60), one)
	return out
}

// sqlAttacks returns requests that inflate the item of 100 KB. It also returns requests that process the small items
// for a long time.
func sqlAttacks() (out []*attack) {
	add := func(brief bool, name, text string) {
		out = append(out, &attack{name: "SQL " + name, brief: brief, rest: true, text: text})
	}
	large := func(brief bool, name, selection string) {
		add(brief, name, "SELECT "+selection+" FROM c WHERE c.id = 'one'")
	}
	join := func(name, selection, joins, where string) {
		add(false, name, "SELECT "+selection+" FROM c "+joins+" WHERE c.id = 'one'"+where)
	}
	const x, xy, xyz = "JOIN x IN c.a", "JOIN x IN c.a JOIN y IN c.b", "JOIN x IN c.a JOIN y IN c.b JOIN z IN c.a"
	large(true, "array of the item", "VALUE ["+many(20_000, ",", "c")+"]")
	large(true, "object of the item", "VALUE {"+many(20_000, ",", "a%d:c")+"}")
	large(false, "selected columns", many(20_000, ",", "c AS a%d"))
	large(false, "results near the bound", "VALUE ["+many(18, ",", "c")+"]")
	large(false, "concatenation", "VALUE "+many(20_000, " || ", "c.t"))
	large(false, "concatenations near the bound",
		"VALUE ["+many(2_000, ",", "LENGTH(c.t || c.t || c.t || c.t || c.t)")+"]")
	large(true, "CONCAT", "VALUE CONCAT("+many(20_000, ",", "c.t")+")")
	large(true, "REPLICATE", "VALUE ["+many(5_000, ",", "LENGTH(REPLICATE(c.t, 20))")+"]")
	large(false, "REPLICATE kept", "VALUE ["+many(5_000, ",", "REPLICATE(c.t, 20)")+"]")
	large(false, "constants", "VALUE ["+many(5_000, ",", "REPLICATE('"+strings.Repeat("a", 50)+"', 10000)")+"]")
	for _, f := range []string{"REVERSE(c.t)", "UPPER(c.t)", "ToString(c)", "REPLACE(c.t, 'x', 'xxxxxxxxxxxxxxxxxxxx')",
		"ObjectToArray(c)", "StringToArray(ToString(c.a))", "StringSplit(c.t, '')", "SetUnion(c.a, c.b)",
		"ARRAY_CONCAT(c.a, c.b)", "ARRAY_SLICE(c.a, 1)", "StringJoin(StringSplit(c.t, ''), 'abc')", "TRIM(c.t)",
		"LEFT(c.t, 79999)", "SUBSTRING(c.t, 1, 79999)", "StringEquals(c.t, c.t, true)", "CONTAINS(c.t, 'xxxxy', true)",
		"ARRAY_CONTAINS(c.a, {x: 1}, true)", "SetIntersect(c.a, c.b)"} {
		large(false, f, "VALUE ["+many(2_000, ",", f)+"]")
	}
	for _, n := range []struct{ name, open, end string }{
		{"arrays", "[", ", #]"}, {"objects", "{a: ", ", b: #}"}, {"CONCAT", "CONCAT(", ", #)"},
		{"ARRAY_CONCAT", "ARRAY_CONCAT([", "], [#])"}, {"ToString", "ToString([", ", #])"}} {
		text := "SELECT VALUE c.t FROM c WHERE c.id = 'one'"
		for i := range 40 {
			v := fmt.Sprint("x", i)
			end := strings.ReplaceAll(n.end, "#", v)
			text = fmt.Sprintf("SELECT VALUE %s%s%s FROM (%s) %s", n.open, v, end, text, v)
		}
		add(false, "nested "+n.name, text)
	}
	large(false, "ARRAY of a join", "VALUE ARRAY(SELECT VALUE c FROM x IN c.a JOIN y IN c.b)")
	large(false, "ARRAYs",
		"VALUE ["+many(1_000, ",", "ARRAY(SELECT VALUE x FROM x IN c.a JOIN y IN c.b WHERE y = 2)")+"]")
	large(false, "EXISTS", "VALUE EXISTS(SELECT VALUE 1 FROM x IN c.a JOIN y IN c.b JOIN z IN c.a WHERE z = -1)")
	add(false, "sub-queries in FROM", "SELECT VALUE 1 FROM c"+many(200, "",
		" JOIN (SELECT VALUE ARRAY(SELECT TOP 90000 VALUE x FROM x IN c.a JOIN y IN c.b)) AS w%d")+" WHERE c.id = 'one'")
	join("MAKELIST", "MAKELIST(c) AS l", x, "")
	join("MAKELISTs", many(1_000, ",", "MAKELIST(c) AS l%d"), x, "")
	join("MAKESET", "MAKESET([x, y]) AS s", xy, "")
	join("MIN of texts", "VALUE {"+many(1_000, ",", "a%d: MIN(REPLICATE(c.t, 20))")+"}", "", "")
	join("DISTINCT of texts", "DISTINCT VALUE CONCAT(c.t, ToString(x))", x, "")
	join("ORDER BY of texts", "VALUE [c, x]", x, " ORDER BY c.t")
	join("GROUP BY of texts", "CONCAT(c.t, ToString(x)) AS k, COUNT(1) AS n", x, " GROUP BY CONCAT(c.t, ToString(x))")
	join("large results of a join", "VALUE c", xy, "")
	out = append(out, &attack{name: "SQL join of three arrays", rest: true, brief: true,
		text: "SELECT VALUE COUNT(1) FROM c " + xyz + " WHERE c.id = 'one'"})
	join("join without results", "VALUE 1", xyz, " AND z = -1")
	join("DISTINCT", "DISTINCT VALUE x + y", xyz, "")
	join("nested EXISTS", "VALUE COUNT(1)", x, " AND EXISTS(SELECT VALUE 1 FROM y IN c.b WHERE EXISTS("+
		"SELECT VALUE 1 FROM z IN c.a WHERE z = -1))")
	join("nested ARRAY", "VALUE ARRAY_LENGTH(ARRAY(SELECT VALUE ARRAY_LENGTH(ARRAY(SELECT VALUE z FROM z IN c.a)) "+
		"FROM y IN c.b))", x, "")
	join("ARRAY_CONTAINS", "VALUE COUNT(1)", xy, " AND ARRAY_CONTAINS(c.a, x + y + 1000000)")
	join("RegexMatch", "VALUE COUNT(1)", x, " AND RegexMatch(REPLICATE('a', 5000), '(a?){1000}b')")
	large(true, "RegexMatch of a large pattern", "VALUE RegexMatch(REPLICATE('a', 5000), '(a?){1000}"+
		strings.Repeat("a", 1000)+"')")
	large(false, "RegexMatch of a larger pattern", "VALUE RegexMatch(c.t, '(((x?a?b?c?){10}){10}){10}y{1000}')")
	join("LIKE", "VALUE COUNT(1)", xy, " AND c.t LIKE '%xxxxxxxxxxxxxxxxy'")
	large(false, "LIKE of a long pattern", "VALUE c.t LIKE REPLICATE('%x', 30000)")
	join("equal objects", "VALUE COUNT(1)", xy, " AND c = c")
	join("missing members", "VALUE COUNT(1)", xy, " AND c.zzz = 1")
	add(true, "ORs", "SELECT VALUE 1 FROM c WHERE "+many(20_000, " OR ", "c.n = -%d"))
	add(false, "ORs of texts", "SELECT VALUE 1 FROM c WHERE "+many(20_000, " OR ", "CONTAINS(c.t, 'y%d')"))
	add(true, "IN of the longest text", "SELECT VALUE 1 FROM c WHERE c.n IN ("+many(250_000, ",", "1")+")")
	add(true, "IN of distinct constants", "SELECT VALUE 1 FROM c WHERE c.n IN ("+many(85_000, ",", "%d")+")")
	add(true, "array of the longest text", "SELECT VALUE 1 FROM c WHERE ARRAY_CONTAINS(["+many(250_000, ",", "1")+
		"], c.n)")
	add(false, "object of the longest text", "SELECT VALUE {"+many(120_000, ",", "a:1")+"} FROM c")
	add(false, "IN", "SELECT VALUE 1 FROM c WHERE c.t IN ("+many(50_000, ",", "'%d'")+")")
	add(false, "COUNT of ORs", "SELECT VALUE COUNT(1) FROM c WHERE "+many(20_000, " OR ", "c.n = -%d"))
	add(false, "GROUP BY of ORs", "SELECT c.n, COUNT(1) AS x FROM c WHERE "+many(20_000, " OR ", "c.n = -%d")+
		" GROUP BY c.n")
	line := func(n int, format string) string {
		return `{type: "LineString", coordinates: [` + many(n, ",", format) + `]}`
	}
	add(true, "ST_DISTANCE of long lines", "SELECT VALUE ST_DISTANCE("+line(15_000, "[%d.5e-3, 1]")+", "+
		line(15_000, "[%d.5e-3, 2]")+") FROM c")
	add(false, "ST_WITHIN of polygons", `SELECT VALUE ST_WITHIN(c.p, {type: "MultiPolygon", coordinates: [`+
		many(900, ",", "[[[0, 0], [%d.5e-2, 0], [%[1]d.5e-2, 0.5], [0, 0]]]")+"]}) FROM c")
	add(false, "ST_ISVALID of a long ring", `SELECT VALUE ST_ISVALID({type: "Polygon", coordinates: [[`+
		many(30_000, ",", "[%d.5e-3, 1]")+", [0.0005, 2], [0.0005, 1]]]}) FROM c")
	join("VectorDistance", "VALUE VectorDistance(ARRAY(SELECT VALUE z FROM z IN c.a), c.a)", xy, "")
	large(false, "ARRAY_MEDIAN", "VALUE ARRAY_MEDIAN(ARRAY(SELECT VALUE x + y FROM x IN c.a JOIN y IN c.b))")
	large(false, "LAST", "VALUE LAST(SELECT VALUE REPLICATE(c.t, 20) FROM x IN c.a JOIN y IN c.b)")
	add(false, "DateTimeFormat", "SELECT VALUE DateTimeFormat('2024-01-01', '"+many(100_000, "", "dddd ")+"') FROM c")
	add(false, "joins of all", "SELECT VALUE COUNT(1) FROM c "+many(5, " ", "JOIN x%d IN c.a"))
	return out
}

// textAttacks returns requests that analyze an item of 200,000 words.
func textAttacks() (out []*attack) {
	add := func(brief bool, name, text string) {
		out = append(out, &attack{name: "SQL " + name, brief: brief, rest: true, text: text})
	}
	condition := func(brief bool, name, condition string) {
		add(brief, name, "SELECT c.id FROM c WHERE c.id = 'words' AND "+condition)
	}
	const fuzzy = "{'term':'w%d" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + "','distance':2}"
	condition(true, "10,000 keywords", "FullTextContainsAny(c.words, "+many(10_000, ",", "'x%d'")+")")
	condition(true, "10,000 phrases", "FullTextContainsAny(c.words, "+many(10_000, ",", "'w1 w2 w3 w4 w%d'")+")")
	condition(true, "1,000 fuzzy keywords", "FullTextContainsAny(c.words, "+
		many(1_000, ",", "{'term':'x%d','distance':2}")+")")
	condition(false, "long fuzzy keywords", "FullTextContainsAny(c.words, "+many(1_000, ",", fuzzy)+")")
	condition(false, "phrase of 50,000 words", "FullTextContains(c.words, '"+many(50_000, " ", "w%d")+"')")
	condition(true, "100 searches", many(100, " AND ", "NOT FullTextContains(c.words, 'x%d')"))
	condition(false, "100 languages", many(100, " AND ", "NOT FullTextContains(CONCAT(c.words, '%d'), 'x')"))
	add(true, "200 scores", "SELECT TOP 9 c.id FROM c ORDER BY RANK FullTextScore(c.words, "+many(200, ",", "'w%d'")+")")
	add(true, "16 scores", "SELECT c FROM c ORDER BY RANK RRF("+
		many(16, ",", "FullTextScore(c.words, 'w%d', 'x')")+")")
	add(false, "fuzzy scores", "SELECT c FROM c ORDER BY RANK FullTextScore(c.words, "+
		many(200, ",", "{'term':'x%d','distance':2}")+")")
	return out
}
