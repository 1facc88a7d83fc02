// SPDX-License-Identifier: Apache-2.0

// Package completion completes CQL input with keywords and with the names in a schema.
//
// It uses the words around the cursor instead of a grammar, so it may offer words that do not fit, and it rejects no
// input. The caller provides the schema. Start reading at Complete.
package completion

import (
	"slices"
	"sort"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/tool/shell/statement"
)

// wordsMax is the maximum number of words to offer.
const wordsMax = 1000

// Schema contains the names that can be completed.
type Schema map[string]*Keyspace

// Keyspace contains the names in a keyspace. Tables maps the names of tables and views to their columns.
type Keyspace struct {
	Tables           map[string][]string
	Types, Functions []string
}

// Input is the current input.
type Input struct {
	// Before is the statement text before the cursor, and After is the text after it.
	Before, After string
	// Keyspace is the keyspace of unqualified names, or "". Schema may be nil. Commands are the commands of the shell.
	Keyspace string
	Schema   Schema
	Commands []string
}

// context is a parsed input.
type context struct {
	Input
	tokens []string // tokens before the word at the cursor; words are in upper case
	raw    []string // the same tokens unchanged
	prefix string
	start  int
	table  []string // the table that the statement names, with or without its keyspace
}

// Complete returns the sorted words that can be at the cursor, and the position in Before at which the word to
// complete starts.
func Complete(in Input) (start int, words []string) {
	c, ok := parse(in)
	if !ok {
		return len(in.Before), nil
	}
	words = c.words()
	slices.Sort(words)
	words = slices.Compact(words)
	return c.start, words[:min(len(words), wordsMax)]
}

// parse parses the input. ok is false in strings and comments, which are not completed.
func parse(in Input) (c context, ok bool) {
	tokens, open := statement.Tokens(in.Before)
	last := len(tokens) - 1
	if open && (last < 0 || tokens[last].Kind != statement.Quoted || tokens[last].End != len(in.Before)) {
		return c, false
	}
	c = context{Input: in, start: len(in.Before)}
	if last >= 0 && tokens[last].End == len(in.Before) &&
		(tokens[last].Kind == statement.Word || tokens[last].Kind == statement.Quoted && open) {
		c.start = tokens[last].Begin
		c.prefix = in.Before[c.start:]
		tokens = tokens[:last]
	}
	for _, t := range tokens {
		text := in.Before[t.Begin:t.End]
		c.raw, c.tokens = append(c.raw, text), append(c.tokens, strings.ToUpper(text))
		if text == ";" {
			c.raw, c.tokens = nil, nil
		}
	}
	c.findTable()
	return c, true
}

// findTable finds the table of the statement, before or after the cursor.
func (c *context) findTable() {
	raw := slices.Clone(c.raw)
	behind, _ := statement.Tokens(c.After)
	for _, t := range behind {
		text := c.After[t.Begin:t.End]
		if text == ";" {
			break
		}
		raw = append(raw, text)
	}
	for i, word := range raw {
		if slices.Contains([]string{"FROM", "INTO", "UPDATE", "ON", "TABLE"}, strings.ToUpper(word)) && i+1 < len(raw) {
			c.table = []string{unquote(raw[i+1])}
			if i+3 < len(raw) && raw[i+2] == "." {
				c.table = append(c.table, unquote(raw[i+3]))
			}
		}
	}
}

// before returns the nth token before the cursor, counted from 1, in upper case. before returns "" if there are fewer
// tokens.
func (c *context) before(n int) string {
	if n > len(c.tokens) {
		return ""
	}
	return c.tokens[len(c.tokens)-n]
}

// words returns the words that can be at the cursor.
func (c *context) words() []string {
	prev := c.before(1)
	switch {
	case prev == "":
		return append(c.keywords(starts), c.keywords(c.Commands)...)
	case prev == "." && len(c.raw) > 1:
		return c.members(c.Schema[unquote(c.raw[len(c.raw)-2])])
	}
	if prev == "DESC" {
		prev = "DESCRIBE"
	}
	if prev == "EXISTS" { // DROP TABLE IF EXISTS t
		for i := 2; i <= 4 && (c.before(i) == "IF" || c.before(i) == "NOT"); i++ {
			prev = c.before(i + 1)
		}
	}
	out := c.keywords(follows[prev])
	switch {
	case slices.Contains(tableAfter, prev):
		return append(out, c.tables()...)
	case slices.Contains(keyspaceAfter, prev):
		return append(out, c.names(keys(c.Schema), "")...)
	case slices.Contains(typeAfter, prev):
		return append(out, c.types()...)
	case len(follows[prev]) > 0 && !slices.Contains(operandAfter, prev):
		return out
	}
	first := c.tokens[0]
	if first == "EXPLAIN" && len(c.tokens) > 1 {
		first = c.tokens[1]
	}
	rows := slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "LET"}, first)
	switch {
	case rows && slices.Contains(operandAfter, prev):
		out = append(append(out, c.columns()...), c.functions()...)
		if prev == "SELECT" {
			out = append(out, c.keywords([]string{"DISTINCT", "JSON"})...)
		}
	case first == "CREATE" || first == "ALTER":
		out = append(append(out, c.keywords(clauses[first])...), c.names(natives, "")...)
		out = append(append(out, c.columns()...), c.types()...)
	default:
		out = append(out, c.keywords(clauses[first])...)
	}
	return out
}

// keywords returns the words that start with the prefix at the cursor. It returns them in the case of the prefix.
func (c *context) keywords(words []string) []string {
	sample := c.prefix
	if sample == "" && len(c.raw) > 0 {
		sample = c.raw[0]
	}
	lower := sample != "" && sample == strings.ToLower(sample)
	var out []string
	for _, w := range words {
		if !strings.HasPrefix(strings.ToUpper(w), strings.ToUpper(c.prefix)) {
			continue
		}
		if lower {
			w = strings.ToLower(w)
		}
		out = append(out, w)
	}
	return out
}

// names returns the names that start with the prefix at the cursor. The names are quoted if necessary, and each is
// followed by end.
func (c *context) names(names []string, end string) []string {
	typed, quoted := strings.CutPrefix(c.prefix, `"`)
	var out []string
	for _, n := range names {
		text := cqltype.QuoteName(n)
		switch {
		case quoted && strings.HasPrefix(n, typed):
			out = append(out, `"`+strings.ReplaceAll(n, `"`, `""`)+`"`+end)
		case !quoted && strings.HasPrefix(strings.ToLower(n), strings.ToLower(typed)):
			out = append(out, text+end)
		}
	}
	return out
}

// tables returns the tables of the current keyspace and the names of all keyspaces.
func (c *context) tables() []string {
	out := c.names(keys(c.Schema), ".")
	if ks := c.Schema[c.Keyspace]; ks != nil {
		out = append(out, c.names(keys(ks.Tables), "")...)
	}
	return out
}

// types returns the user-defined types of the current keyspace and the names of all keyspaces.
func (c *context) types() []string {
	out := c.names(keys(c.Schema), ".")
	if ks := c.Schema[c.Keyspace]; ks != nil {
		out = append(out, c.names(ks.Types, "")...)
	}
	return out
}

// members returns the names that can follow a keyspace and a dot.
func (c *context) members(ks *Keyspace) []string {
	if ks == nil {
		return nil
	}
	switch before := c.before(3); {
	case slices.Contains(tableAfter, before) || before == "EXISTS":
		return c.names(keys(ks.Tables), "")
	case slices.Contains(typeAfter, before):
		return c.names(ks.Types, "")
	}
	return slices.Concat(c.names(keys(ks.Tables), ""), c.names(ks.Types, ""), c.names(ks.Functions, "("))
}

// columns returns the columns of the table that the statement names.
func (c *context) columns() []string {
	keyspace, table := c.Keyspace, ""
	switch len(c.table) {
	case 0:
		return nil
	case 1:
		table = c.table[0]
	case 2:
		keyspace, table = c.table[0], c.table[1]
	}
	ks := c.Schema[keyspace]
	if ks == nil {
		return nil
	}
	return c.names(ks.Tables[table], "")
}

// functions returns the native functions and the functions of the current keyspace.
func (c *context) functions() []string {
	var out []string
	for _, f := range functions {
		if strings.HasPrefix(strings.ToLower(f), strings.ToLower(c.prefix)) {
			out = append(out, f+"(")
		}
	}
	if ks := c.Schema[c.Keyspace]; ks != nil {
		out = append(out, c.names(ks.Functions, "(")...)
	}
	return out
}

// unquote returns the name that a token represents.
func unquote(token string) string {
	if strings.HasPrefix(token, `"`) {
		return strings.ReplaceAll(strings.TrimSuffix(token[1:], `"`), `""`, `"`)
	}
	return strings.ToLower(token)
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
