// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// statementMemory limits the memory of all large unprepared statements in execution. The memory of a statement depends
// on the number of tokens. If a statement contains many short terms, the syntax tree is about a hundred times as large
// as the text. Short texts are not counted, because the limit on the total size of in-flight requests covers short
// texts.
type statementMemory struct {
	max  int64
	used atomic.Int64
}

const (
	// tokenBytes is the estimated memory of a token in a syntax tree and a plan, in bytes.
	tokenBytes = 200
	// countedTextMin is the minimum length in bytes of counted texts. Workers parse texts of this length.
	countedTextMin = inlineTextMax
)

// reserve reserves memory for one statement or for the statements of a batch. It returns the number of reserved bytes,
// which the caller must release.
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
		tokens += parser.CountTokens(string(t), most-tokens)
		if tokens > most {
			return 0, dberr.Invalidf("The statement has too many terms for the statement memory of %d bytes: "+
				"bind the values, or use several statements", m.max)
		}
	}
	n := int64(tokens) * tokenBytes
	if m.used.Add(n) > m.max {
		m.used.Add(-n)
		return 0, &dberr.Overloaded{Message: "Too many large statements are being executed. Bind the values, or retry later"}
	}
	return n, nil
}

func (m *statementMemory) release(n int64) {
	if n != 0 {
		m.used.Add(-n)
	}
}
