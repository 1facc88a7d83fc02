// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// textMemory bounds the memory of all large statements that came as text and are not done. What a statement takes
// depends on the number of its tokens: a syntax tree is a hundred times as large as a text of many short terms, and no
// larger than one of few long ones. Short texts are not counted: they are bounded with the bytes of requests in flight.
type statementMemory struct {
	max  int64
	used atomic.Int64
}

const (
	// tokenBytes is about what a token of a statement takes in its syntax tree and plan, in bytes.
	tokenBytes = 200
	// countedTextMin is the length from which on texts are counted, in bytes. It is where they are parsed on workers.
	countedTextMin = inlineTextMax
)

// take reserves the memory of a statement, or of those of a batch, and returns how much it is; give gives it back.
func (m *statementMemory) reserve(texts ...[]byte) (int64, error) {
	size := 0
	for _, t := range texts {
		size += len(t)
	}
	if size <= countedTextMin {
		return 0, nil
	}
	most, tokens := int(m.max/tokenBytes), 0
	for _, t := range texts {
		tokens += parser.Tokens(string(t), most-tokens)
		if tokens > most {
			return 0, dberr.Invalidf("A statement of so many terms does not fit into the memory for statements, %d bytes: "+
				"bind values, or send several statements", m.max)
		}
	}
	n := int64(tokens) * tokenBytes
	if m.used.Add(n) > m.max {
		m.used.Add(-n)
		return 0, &dberr.Overloaded{Message: "Too many large statements are being executed: bind values, or try again"}
	}
	return n, nil
}

func (m *statementMemory) release(n int64) {
	if n != 0 {
		m.used.Add(-n)
	}
}
