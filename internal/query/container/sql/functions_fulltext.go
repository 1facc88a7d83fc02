// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
)

// Names of full-text functions. Clients and Ranking insert the functions that begin with an underscore into the queries
// that replace a query with ORDER BY RANK.
const (
	containsName    = "FULLTEXTCONTAINS"
	containsAllName = "FULLTEXTCONTAINSALL"
	containsAnyName = "FULLTEXTCONTAINSANY"
	scoreName       = "FULLTEXTSCORE"
	fusionName      = "RRF"
	rankedName      = "_FULLTEXTSCORE"
	wordCountName   = "_FULLTEXTWORDCOUNT"
)

// fullTextFunctions are the full-text functions. The binder creates their implementations, because they depend on the
// language of a path. They are volatile because a constant has no path.
var fullTextFunctions = map[string]builtin{
	containsName:    {min: 2, max: 2, volatile: true},
	containsAllName: {min: 2, max: -1, volatile: true},
	containsAnyName: {min: 2, max: -1, volatile: true},
	scoreName:       {min: 2, max: -1, volatile: true},
	fusionName:      {min: 2, max: -1, volatile: true},
}

// rankFunctions are the functions in the queries that replace a query with ORDER BY RANK.
// _FullTextScore(path, keywords, documents, words, hits) returns the score of a text, computed with the statistics of
// all documents. _FullTextWordCount(path) returns the number of the terms of a text.
var rankFunctions = map[string]builtin{
	rankedName:    {min: 5, max: 5, volatile: true},
	wordCountName: {min: 1, max: 1, volatile: true},
}

// isFullText reports whether a name belongs to a full-text function.
func isFullText(upper string) bool {
	_, ok := fullTextFunctions[upper]
	_, ok2 := rankFunctions[upper]
	return ok || ok2
}

// fullText binds a call of a full-text function.
func (b *binder) fullText(x *Call, upper string) (node, error) {
	if upper == scoreName || upper == fusionName {
		return nil, b.fail(x.span, codeFunction, "The %s function is allowed only in the ORDER BY RANK clause.", x.Name)
	}
	text, err := b.expr(x.Args[0])
	if err != nil {
		return nil, err
	}
	language := b.languageOf(x.Args[0])
	if upper == wordCountName {
		return &textNode{wordCount(language), text}, nil
	}
	args := x.Args[1:]
	if upper == rankedName {
		args = args[:1]
	}
	values, err := b.keywordValues(x, args, upper == rankedName)
	if err != nil {
		return nil, err
	}
	keywords := make([]fulltext.Keyword, len(values))
	for i, v := range values {
		keywords[i] = keywordOf(language, v)
	}
	f := contains(language, keywords, upper == containsAllName)
	if upper == rankedName {
		s, err := b.statistics(x)
		if err != nil {
			return nil, err
		}
		f = score(language, keywords, s)
	}
	return &textNode{f, text}, nil
}

// languageOf returns the language of the texts of an expression.
func (b *binder) languageOf(e Expr) fulltext.Language {
	path, _ := b.itemPath(e)
	return b.schema.Language(path)
}

// keywordValues returns the keywords in the arguments of a call: strings, or objects with a term and a distance. list
// reports whether a single argument may also be an array of keywords.
func (b *binder) keywordValues(x *Call, args []Expr, list bool) ([]document.Value, error) {
	var values []document.Value
	for _, arg := range args {
		n, err := b.expr(arg)
		if err != nil {
			return nil, err
		}
		c, ok := n.(constNode)
		if list && ok && len(args) == 1 && c.value.Kind() == document.Array {
			for v := range c.value.Elements() {
				values = append(values, v)
			}
			continue
		}
		if !ok {
			return nil, b.fail(arg.at(), codeArguments, "The keywords of %s must be constants or parameters.", x.Name)
		}
		values = append(values, c.value)
	}
	for _, v := range values {
		if v.Kind() == document.String || isFuzzy(v) {
			continue
		}
		return nil, b.fail(x.span, codeArguments, "The keywords of %s must be strings, or objects with the members 'term' "+
			"(a string) and 'distance' (an integer from 0 to %d).", x.Name, fulltext.DistanceMax)
	}
	return values, nil
}

// isFuzzy reports whether a value is an object {"term": string, "distance": integer}.
func isFuzzy(v document.Value) bool {
	d, ok := v.Get("distance").Int()
	return v.Kind() == document.Object && v.Len() == 2 && v.Get("term").Kind() == document.String &&
		v.Get("distance").Kind() == document.Number && ok && d >= 0 && d <= fulltext.DistanceMax
}

// keywordOf returns the keyword for a value that keywordValues accepts.
func keywordOf(l fulltext.Language, v document.Value) fulltext.Keyword {
	if v.Kind() == document.String {
		return l.Keyword(v.Str(), 0)
	}
	d, _ := v.Get("distance").Int()
	return l.Keyword(v.Get("term").Str(), int(d))
}

// statistics returns the statistics in the last arguments of a call of _FullTextScore.
func (b *binder) statistics(x *Call) (*fulltext.Statistics, error) {
	var values [3]document.Value
	for i := range values {
		n, err := b.expr(x.Args[i+2])
		if err != nil {
			return nil, err
		}
		c, _ := n.(constNode)
		values[i] = c.value
	}
	if !all(values[:2], document.Number) || values[2].Kind() != document.Array {
		return nil, b.fail(x.span, codeArguments, "The statistics of %s must be two numbers and an array of numbers.", x.Name)
	}
	s := &fulltext.Statistics{Documents: values[0].Float(), Words: values[1].Float()}
	for v := range values[2].Elements() {
		s.Hits = append(s.Hits, v.Float())
	}
	return s, nil
}

// analyzed holds the tokens of the text of the current item that was analyzed last. Several functions usually need the
// tokens of the same text.
type analyzed struct {
	tokens   []fulltext.Token
	text     string
	language fulltext.Language
	known    bool
	counts   []int
}

// tokensMax is the number of tokens for which the memory is reused.
const tokensMax = 4096

// reset discards the tokens, because the memory of the item may have been reused.
func (a *analyzed) reset() {
	if a.known {
		a.known, a.text = false, ""
		clear(a.tokens)
		if a.tokens = a.tokens[:0]; cap(a.tokens) > tokensMax {
			a.tokens = nil
		}
	}
}

// analysisBytes is the number of bytes of a text that are analyzed per step. tokenBytes is the memory of a token.
const (
	analysisBytes = 1
	tokenBytes    = 24
)

// tokens returns the tokens of a text. If the evaluation must end, ok is false.
func (e *env) tokens(l fulltext.Language, v document.Value) (tokens []fulltext.Token, ok bool) {
	a, n := &e.analyzed, v.TextSize()
	if !e.work(callWork + n/compareBytes) {
		return nil, false
	}
	text := v.Str()
	if len(text)+2 < n && !e.alloc(len(text)) { // The text has escaped characters, so it was copied.
		return nil, false
	}
	if a.known && a.language == l && a.text == text {
		return a.tokens, true
	}
	a.reset()
	if !e.atOnce(1+n/analysisBytes) || n >= smallArguments && !e.alloc(n+2*tokenBytes*fulltext.TokensMax(text)) {
		return nil, false
	}
	a.known, a.language, a.text = true, l, text
	a.tokens = l.Tokens(a.tokens, text)
	return a.tokens, true
}

// textFunction is a function of a text.
type textFunction func(e *env, v document.Value) document.Value

// textNode is a call of a textFunction. Unlike a callNode, it does not count memory for its argument, because the
// functions keep the tokens of a text for later calls.
type textNode struct {
	f    textFunction
	text node
}

func (n *textNode) eval(e *env) document.Value {
	v := n.text.eval(e)
	if e.err != nil {
		return undefined
	}
	return n.f(e, v)
}

// contains returns the function that reports whether a text contains one of the keywords, or all of them. Keywords that
// consist of stop words are ignored, unless there are no other keywords.
func contains(l fulltext.Language, keywords []fulltext.Keyword, all bool) textFunction {
	keywords = fulltext.Distinct(keywords)
	m := fulltext.NewMatcher(keywords)
	missing := min(1, len(keywords))
	if all {
		missing = len(keywords)
	}
	return func(e *env, v document.Value) document.Value {
		if v.Kind() != document.String {
			return undefined
		}
		tokens, ok := e.tokens(l, v)
		if !ok || missing == 0 {
			return document.BooleanValue(false)
		}
		counts, left := e.countsOf(m), missing
		m.Find(tokens, e.work, func(k int) bool {
			if counts[k]++; counts[k] == 1 {
				left--
			}
			return left > 0
		})
		return document.BooleanValue(left == 0)
	}
}

// countsOf returns a count of 0 for each keyword.
func (e *env) countsOf(m *fulltext.Matcher) []int {
	a := &e.analyzed
	if cap(a.counts) < m.Len() {
		a.counts = make([]int, m.Len())
	}
	a.counts = a.counts[:m.Len()]
	e.work(m.Len() / callBytes)
	clear(a.counts)
	return a.counts
}

// score returns the function that returns the score of a text.
func score(l fulltext.Language, keywords []fulltext.Keyword, s *fulltext.Statistics) textFunction {
	m := fulltext.NewMatcher(keywords)
	return func(e *env, v document.Value) document.Value {
		if v.Kind() != document.String {
			return undefined
		}
		tokens, ok := e.tokens(l, v)
		if !ok {
			return undefined
		}
		counts := e.countsOf(m)
		m.Find(tokens, e.work, func(k int) bool {
			counts[k]++
			return true
		})
		return document.NumberValue(s.Score(counts, len(tokens)))
	}
}

// wordCount returns the function that returns the number of the terms of a text.
func wordCount(l fulltext.Language) textFunction {
	return func(e *env, v document.Value) document.Value {
		if v.Kind() != document.String {
			return document.IntegerValue(0)
		}
		tokens, _ := e.tokens(l, v)
		return document.IntegerValue(int64(len(tokens)))
	}
}

// filterKeywordsMax is the maximum number of keywords of a call in a Filter.
const filterKeywordsMax = 64

// fullText returns the condition of a call of a full-text function.
func (a *analysis) fullText(x *Call) *Filter {
	b := &binder{parameters: a.parameters, schema: a.schema}
	steps, ok := a.property(x.Args[0])
	path := make(document.Path, len(steps))
	for i, s := range steps {
		ok = ok && !s.Elements
		path[i] = s.Name
	}
	values, err := b.keywordValues(x, x.Args[1:], false)
	if !ok || err != nil {
		return nil
	}
	op := "OR"
	if strings.EqualFold(x.Name, containsAllName) {
		op = "AND"
	}
	l := a.schema.Language(path)
	var out *Filter
	first := true
	if len(values) > filterKeywordsMax {
		if op == "OR" {
			return nil
		}
		values = values[:filterKeywordsMax]
	}
	for _, v := range values {
		k := keywordOf(l, v)
		var one *Filter
		terms, exact := k.Terms()
		if len(terms) == 0 {
			continue // The keyword is ignored.
		}
		for _, t := range terms {
			if exact {
				one = combine("AND", one, &Filter{Op: "TERM", Text: path, Term: t, Language: l})
			}
		}
		if first {
			out, first = one, false
		} else {
			out = combine(op, out, one)
		}
	}
	return out
}
