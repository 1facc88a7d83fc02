// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"regexp"
	"slices"
	"strings"
)

// reason is a difference that docs/compatibility.md documents. Each non-nil expression must match its text.
type reason struct {
	name                        string
	statement, ilion, cassandra *regexp.Regexp
	// reordered requires that both results have the same rows, in any order.
	reordered bool
	// renamed requires that the results differ only in column names and page sizes.
	renamed bool
}

func pattern(s string) *regexp.Regexp { return regexp.MustCompile(s) }

var (
	twoBounds = pattern(`\b(c\d)\)? >=? .*\bc\d\)? <=? `)
	noRows    = pattern(`, [01] rows`)
	invalid   = pattern(`^error 0x2200`)
)

// reasons holds all documented differences that random statements find. The names are headings or list items of
// docs/compatibility.md.
var reasons = []reason{
	{name: "texts: functions of constants", statement: pattern(` IF `), ilion: pattern(`valid binary representation`)},
	{name: "texts: operations on constants", statement: pattern(` IF `), ilion: pattern(`the operation '.*' failed`)},
	{name: "texts: several errors", ilion: pattern(`the operation '.*' failed`), cassandra: invalid},
	{name: "texts: a minus before inet", cassandra: pattern(`mismatched character`), ilion: invalid},
	{name: "texts: names of literals", statement: pattern(`\[(\.\.)?[({]`), renamed: true},
	{name: "texts: several errors", statement: pattern(`IN \(`), ilion: pattern(`List index|a list which is null`),
		cassandra: invalid},
	{name: "texts: several errors", ilion: pattern(`Clustering column "\w+" cannot be restricted`),
		cassandra: pattern(`use ALLOW FILTERING`)},
	{name: "Conditional batches: lists", statement: pattern(`^BEGIN BATCH .* IF .*(r\d\[|r\d -= \[)`)},
	{name: "texts: tuples with collections", ilion: pattern(`cannot parse '.*' as hex`)},
	{name: "texts: floats", cassandra: pattern(`9\.8E-45|2\.14748365E9`)},
	{name: "texts: invalid timeuuids", statement: pattern(`(?i)(max|min)_?timeuuid\(`), ilion: pattern(`7f7f|8080`)},
	{name: "texts: exp of decimals", statement: pattern(`\bexp\(`), ilion: pattern(`number is out of range`)},
	{name: "texts: log10 of powers of ten", statement: pattern(`\blog10\(`), cassandra: pattern(`\b\d+(E\+\d+)?, `)},
	{name: "texts: masks of static columns", statement: pattern(`mask_replace\(s, \{`),
		ilion: pattern(`selecting only static columns`)},
	{name: "Null in IN", statement: pattern(`IN \(null`), cassandra: noRows},
	{name: "Descending clustering columns", cassandra: pattern(`CONTAINS on non-collection column c`)},
	{name: "Descending clustering columns", cassandra: pattern(`requires a .*argument, but found argument c\d`)},
	{name: "Descending clustering columns", statement: pattern(`mask_replace\(c\d, `), cassandra: invalid},
	{name: "Descending clustering columns", statement: pattern(`\(c\d\.f\d\)`), cassandra: pattern(`Invalid call to`)},
	{name: "Descending clustering columns", statement: pattern(`[(\[]c\d\[`), cassandra: pattern(`Cannot infer type`)},
	{name: "Descending clustering columns", statement: pattern(`CAST\(c\d AS `),
		cassandra: pattern(`\bcast\(c\d as|Invalid call to function system.cast`)},
	{name: "Descending clustering columns", statement: pattern(`(max|min)\(\[c\d`)},
	{name: "Descending clustering columns", statement: pattern(`FROM v\d WHERE .*IN \(`), reordered: true},
	{name: "Descending clustering columns", statement: pattern(`\bc\d`),
		cassandra: pattern(`^error 0x2200: Ambiguous`)},
	{name: "Hexadecimal constants", statement: pattern(`0x`),
		ilion: pattern(`Invalid HEX constant|0x[0-9a-f]* cannot be passed as argument|Invalid tuple literal`)},
	{name: "Hexadecimal constants",
		ilion: pattern(`Unable to make \w+ from '[0-9a-f]*'|is not supported between .*0x`)},
	{name: "Times before the first timeuuid", ilion: pattern(`first timeuuid`)},
	{name: "Empty pages", ilion: pattern(`Cannot page queries`)},
	{name: "Years after 9999", ilion: pattern(`["']-\d+-\d\d-\d\d[ T]`)},
	{name: "Errors in conditions and slices", ilion: pattern(`Invalid comparison with (null|an empty \w+) for`)},
	{name: "Errors in conditions and slices", statement: pattern(`token\(`), ilion: pattern(`Key may not be empty`),
		cassandra: noRows},
	{name: "Errors in conditions and slices", statement: twoBounds, ilion: pattern(`Key may not be empty`),
		cassandra: noRows},
	{name: "null-bound", statement: pattern(`[<>]=? null`), ilion: pattern(`Invalid null value in condition`)},
	{name: "Collections in tuples",
		cassandra: pattern(`[(\[]\w\d?, \w\d?[)\]] cannot be passed as argument 0 of function`)},
	{name: "Collections in tuples", statement: pattern(`[(\[]\((udt|map|list|set)\b`),
		cassandra: pattern(`Cannot assign value`)},
	{name: "Compact tables: column1", cassandra: pattern(`column1 text`)},
	{name: "Compact tables: empty keys", statement: pattern(` IF `), ilion: pattern(`Invalid empty or null value`)},
	{name: "Map elements in conditions",
		statement: pattern(` IF .*\w\d\[(true|false|-?\d+\.\d+|\w{8}-[\w-]*|-?NaN|-?Infinity)\] (=|!=|<|>)`),
		ilion:     pattern(`^\[applied\]`)},
	{name: "Order of SELECT JSON", statement: pattern(`^SELECT JSON .*IN \(.*ORDER BY`), reordered: true},
	{name: "Empty ranges of tokens", statement: pattern(`token\(\w+\) <=? (token\(|-9)`),
		cassandra: pattern(`, 0 rows`)},
	{name: "CONTAINS on static columns", statement: pattern(`s\d CONTAINS .*LIMIT`)},
	{name: "internal-errors: pages of groups", statement: pattern(`GROUP BY`), renamed: true},
	{name: "Empty ranges of tokens", statement: pattern(`token\(.*[<>].*token\(`), ilion: noRows},
	{name: "Indexes on static columns", statement: pattern(`s\d = `), cassandra: pattern(`, 0 rows`)},
	{name: "CONTAINS on frozen collections", statement: pattern(`CONTAINS -?\d`)},
	{name: "CONTAINS on static columns", statement: pattern(`s\d CONTAINS`), ilion: noRows},
	{name: "CONTAINS with storage-attached indexes", statement: pattern(`CONTAINS`),
		cassandra: pattern(`, 0 rows`)},
	{name: "timestamps of the servers", statement: pattern(`\w\((max|min)?writetime|\(\w+\) (max|min)?writetime`)},
}

// explained reports whether docs/compatibility.md explains the difference between two results.
func explained(statement, ilion, cassandra string) bool {
	matches := func(re *regexp.Regexp, s string) bool { return re == nil || re.MatchString(s) }
	return slices.ContainsFunc(reasons, func(r reason) bool {
		return matches(r.statement, statement) && matches(r.ilion, ilion) && matches(r.cassandra, cassandra) &&
			(!r.reordered || sortedLines(ilion) == sortedLines(cassandra)) &&
			(!r.renamed || header.ReplaceAllString(ilion, "") == header.ReplaceAllString(cassandra, ""))
	})
}

// header matches the names and types of columns, the ends of pages, and the warnings of each page.
var header = regexp.MustCompile(`(?m)^(.* \d+ rows|-- next page|warning: .*)\n`)

func sortedLines(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// keyForms replaces decimals and tuples with the forms that Ilion returns in clustering columns, in sets, and as keys
// of maps (docs/compatibility.md, decimal-clustering).
func keyForms(result string) string {
	result = strings.ReplaceAll(strings.ReplaceAll(result, "1E+10", "10000000000"), ", null)", ")")
	return trailingZeros.ReplaceAllString(result, "$1$2")
}

var trailingZeros = regexp.MustCompile(`\b(\d+)(?:\.0+|(\.\d*[1-9])0+)\b`)

// keyed reports whether a column stores decimals or tuples by their value.
func (c column) keyed(clustering bool) bool {
	return pattern("decimal|tuple").MatchString(c.kind.name) &&
		(clustering || c.kind.multi && c.kind.base() != "list")
}

// bytesOf matches function calls that show the bytes of a key column.
var bytesOf = regexp.MustCompile(`(?i)(mask_hash|_?as_?blob)\(c\d`)
