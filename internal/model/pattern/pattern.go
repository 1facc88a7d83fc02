// SPDX-License-Identifier: Apache-2.0

// Package pattern compiles regular expressions from clients. It limits the size of the compiled program and the
// duration of a match. Package regexp cannot interrupt a match, so the cost of a match must be known in advance.
package pattern

import (
	"errors"
	"regexp"
	"regexp/syntax"
)

// InstructionsMax is the maximum number of instructions of a program. Each instruction uses about a hundred bytes.
const InstructionsMax = 20_000

// ErrTooLarge reports an expression whose program would exceed InstructionsMax.
var ErrTooLarge = errors.New("the regular expression is too complex: its program has more than 20000 instructions")

// Pattern is a compiled expression. A Pattern is safe for concurrent use.
type Pattern struct {
	*regexp.Regexp
	instructions int
}

// Compile compiles an expression. On failure, it returns ErrTooLarge or a *syntax.Error.
func Compile(expression string) (*Pattern, error) {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		if code, ok := errors.AsType[*syntax.Error](err); ok && code.Code == syntax.ErrLarge {
			return nil, ErrTooLarge
		}
		return nil, err
	}
	n := size(tree)
	if n > InstructionsMax {
		return nil, ErrTooLarge
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	return &Pattern{re, n}, nil
}

// size estimates the number of instructions of an expression. The result is at most InstructionsMax+1.
func size(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		if n += size(sub); n > InstructionsMax {
			return InstructionsMax + 1
		}
	}
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min+1, re.Max, 1)
	}
	return min(n, InstructionsMax+1)
}

// Cost returns the cost of a match against a text of the given length, in units of about 30 ns.
func (p *Pattern) Cost(bytes int) int { return 1 + (bytes+1)*p.instructions/4 }
