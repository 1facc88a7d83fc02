// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"math"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

var (
	yes       = document.BooleanValue(true)
	no        = document.BooleanValue(false)
	undefined document.Value
)

// equals evaluates x = y. equals returns Undefined for values of different types and compares arrays and objects
// recursively.
func equals(x, y document.Value) document.Value {
	if x.Kind() != y.Kind() || x.Kind() == document.Undefined {
		return undefined
	}
	return document.BooleanValue(document.Equal(x, y))
}

// differs evaluates x != y. A value that is not null differs from null. Otherwise, the result is the negation of
// equals.
func differs(x, y document.Value) document.Value {
	if x.Kind() != y.Kind() && x.IsDefined() && y.IsDefined() &&
		(x.Kind() == document.Null || y.Kind() == document.Null) {
		return yes
	}
	return negate(equals(x, y))
}

// less evaluates x < y. If orEqual is set, it evaluates x <= y. less returns Undefined for arrays, objects, and values
// of different types.
func less(x, y document.Value, orEqual bool) document.Value {
	if x.Kind() != y.Kind() || x.Kind() == document.Undefined || x.Kind() >= document.Array {
		return undefined
	}
	c := document.Compare(x, y)
	return document.BooleanValue(c < 0 || orEqual && c == 0)
}

func negate(v document.Value) document.Value {
	if v.Kind() != document.Boolean {
		return undefined
	}
	return document.BooleanValue(!v.IsTrue())
}

// and evaluates x AND y in three-valued logic.
func and(x, y document.Value) document.Value {
	xb, yb := x.Kind() == document.Boolean, y.Kind() == document.Boolean
	switch {
	case xb && !x.IsTrue() || yb && !y.IsTrue():
		return no
	case xb && yb:
		return yes
	}
	return undefined
}

type (
	andNode     struct{ x, y node }
	orNode      struct{ x, y node }
	notNode     struct{ x node }
	compareNode struct {
		op   byte // '=', '!', '<', 'l' for <=; > and >= swap the operands
		x, y node
	}
	numberNode struct {
		x, y node
		f    func(x, y float64) float64
	}
	concatNode struct{ x, y node }
	signNode   struct {
		x node
		f func(x float64) float64
	}
)

func (n *andNode) eval(e *env) document.Value {
	e.work(1)
	x := n.x.eval(e)
	if x.Kind() == document.Boolean && !x.IsTrue() {
		return x
	}
	return and(x, n.y.eval(e))
}

func (n *orNode) eval(e *env) document.Value {
	e.work(1)
	x := n.x.eval(e)
	if x.IsTrue() {
		return x
	}
	return negate(and(negate(x), negate(n.y.eval(e))))
}

func (n *notNode) eval(e *env) document.Value { return negate(n.x.eval(e)) }

func (n *compareNode) eval(e *env) document.Value {
	x := n.x.eval(e)
	if !x.IsDefined() {
		return undefined
	}
	y := n.y.eval(e)
	if !e.comparing(x, y) {
		return undefined
	}
	switch n.op {
	case '=':
		return equals(x, y)
	case '!':
		return differs(x, y)
	}
	return less(x, y, n.op == 'l')
}

// eval evaluates an arithmetic operation. eval returns Undefined unless both operands are numbers and JSON can
// represent the result.
func (n *numberNode) eval(e *env) document.Value {
	x, y := n.x.eval(e), n.y.eval(e)
	if x.Kind() != document.Number || y.Kind() != document.Number {
		return undefined
	}
	e.work(numberSteps)
	return document.NumberValue(n.f(x.Float(), y.Float()))
}

func (n *concatNode) eval(e *env) document.Value {
	x, y := n.x.eval(e), n.y.eval(e)
	if x.Kind() != document.String || y.Kind() != document.String {
		return undefined
	}
	if x.TextSize()+y.TextSize() > textMax+4 {
		return e.tooLong()
	}
	if size := x.TextSize() + y.TextSize(); !e.work(2+size/compareBytes) || !e.alloc(2*size) {
		return undefined
	}
	return e.text(x.Str() + y.Str())
}

func (n *signNode) eval(e *env) document.Value {
	x := n.x.eval(e)
	if x.Kind() != document.Number {
		return undefined
	}
	return document.NumberValue(n.f(x.Float()))
}

// toInt32 converts the operand of a bitwise operator as in JavaScript.
func toInt32(f float64) int32 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return int32(uint32(int64(math.Mod(math.Trunc(f), 1<<32))))
}

var arithmetic = map[string]func(x, y float64) float64{
	"+":   func(x, y float64) float64 { return x + y },
	"-":   func(x, y float64) float64 { return x - y },
	"*":   func(x, y float64) float64 { return x * y },
	"/":   func(x, y float64) float64 { return x / y },
	"%":   math.Mod,
	"&":   func(x, y float64) float64 { return float64(toInt32(x) & toInt32(y)) },
	"|":   func(x, y float64) float64 { return float64(toInt32(x) | toInt32(y)) },
	"^":   func(x, y float64) float64 { return float64(toInt32(x) ^ toInt32(y)) },
	"<<":  func(x, y float64) float64 { return float64(toInt32(x) << (uint32(toInt32(y)) & 31)) },
	">>":  func(x, y float64) float64 { return float64(toInt32(x) >> (uint32(toInt32(y)) & 31)) },
	">>>": func(x, y float64) float64 { return float64(uint32(toInt32(x)) >> (uint32(toInt32(y)) & 31)) },
}

// newBinary returns the node of an operator.
func newBinary(op string, x, y node) node {
	switch op {
	case "AND":
		return &andNode{x, y}
	case "OR":
		return &orNode{x, y}
	case "??":
		return &coalesceNode{x, y}
	case "||":
		return &concatNode{x, y}
	case "=":
		return &compareNode{'=', x, y}
	case "!=":
		return &compareNode{'!', x, y}
	case "<":
		return &compareNode{'<', x, y}
	case "<=":
		return &compareNode{'l', x, y}
	case ">":
		return &compareNode{'<', y, x}
	case ">=":
		return &compareNode{'l', y, x}
	}
	return &numberNode{x, y, arithmetic[op]}
}

func newUnary(op string, x node) node {
	switch op {
	case "NOT":
		return &notNode{x}
	case "-":
		return &signNode{x, func(f float64) float64 { return -f }}
	case "~":
		return &signNode{x, func(f float64) float64 { return float64(^toInt32(f)) }}
	}
	return &signNode{x, func(f float64) float64 { return f }}
}

// likeNode evaluates x LIKE pattern.
type likeNode struct {
	x, pattern, escape node // escape is nil if the expression has no ESCAPE clause
	not                bool
	// ready is the compiled pattern if the pattern is constant.
	ready *likePattern
}

func (n *likeNode) eval(e *env) document.Value {
	x := n.x.eval(e)
	p := n.ready
	if p == nil {
		pattern := n.pattern.eval(e)
		if pattern.Kind() != document.String {
			return undefined
		}
		escape := ""
		if n.escape != nil {
			escape = n.escape.eval(e).Str()
		}
		if !e.work(pattern.TextSize()) || !e.alloc(likeBytes*pattern.TextSize()) {
			return undefined
		}
		p = newLike(pattern.Str(), escape)
	}
	if x.Kind() != document.String {
		return undefined
	}
	// In the worst case, each % causes a comparison of the rest of the pattern at every character.
	if !e.atOnce(p.cost(x.TextSize())) || !e.alloc(4*x.TextSize()) {
		return undefined
	}
	return document.BooleanValue(p.matches(x.Str()) != n.not)
}

// likePattern is a pattern split into parts. A part matches a single character, or any number of characters if many is
// set.
type likePattern struct{ parts []likePart }

type likePart struct {
	many, any, set, except bool
	r                      rune
	ranges                 [][2]rune
}

func newLike(pattern, escape string) *likePattern {
	p := &likePattern{}
	runes := []rune(pattern)
	var esc rune = -1
	if r := []rune(escape); len(r) == 1 {
		esc = r[0]
	}
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == esc && i+1 < len(runes):
			i++
			p.parts = append(p.parts, likePart{r: runes[i]})
		case r == '%':
			p.parts = append(p.parts, likePart{many: true})
		case r == '_':
			p.parts = append(p.parts, likePart{any: true})
		case r == '[':
			part, n := newSet(runes[i+1:])
			i += n
			p.parts = append(p.parts, part)
		default:
			p.parts = append(p.parts, likePart{r: r})
		}
	}
	return p
}

// newSet parses a set after its opening bracket and returns its length in characters. If the closing bracket is
// missing, the opening bracket is a literal character.
func newSet(runes []rune) (likePart, int) {
	end := strings.IndexRune(string(runes), ']')
	if end < 0 {
		return likePart{r: '['}, 0
	}
	in := []rune(string(runes)[:end])
	part, n := likePart{set: true}, len(in)+1
	if len(in) > 0 && in[0] == '^' {
		part.except, in = true, in[1:]
	}
	for i := 0; i < len(in); i++ {
		if i+2 < len(in) && in[i+1] == '-' {
			part.ranges = append(part.ranges, [2]rune{in[i], in[i+2]})
			i += 2
			continue
		}
		part.ranges = append(part.ranges, [2]rune{in[i], in[i]})
	}
	return part, n
}

func (p *likePart) takes(r rune) bool {
	switch {
	case p.any:
		return true
	case !p.set:
		return p.r == r
	}
	for _, rg := range p.ranges {
		if rg[0] <= r && r <= rg[1] {
			return !p.except
		}
	}
	return p.except
}

// likeBytes is the memory of a pattern part in bytes, including the growth of the list.
const likeBytes = 160

// cost returns the work of matching a text of a given size. The parts between two % characters are compared at each
// character of the text.
func (p *likePattern) cost(size int) int {
	most, run := 1, 0
	for i := range p.parts {
		if run += 1 + len(p.parts[i].ranges); p.parts[i].many {
			run = 0
		}
		most = max(most, run)
	}
	return 1 + size*most/8
}

// matches backtracks only to the last %. Backtracking further is not necessary and would take exponential time.
func (p *likePattern) matches(s string) bool {
	text := []rune(s)
	i, at, star, mark := 0, 0, -1, 0
	for i < len(text) {
		switch {
		case at < len(p.parts) && p.parts[at].many:
			star, mark = at, i
			at++
		case at < len(p.parts) && p.parts[at].takes(text[i]):
			at++
			i++
		case star >= 0:
			mark++
			at, i = star+1, mark
		default:
			return false
		}
	}
	for at < len(p.parts) && p.parts[at].many {
		at++
	}
	return at == len(p.parts)
}
