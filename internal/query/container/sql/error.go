// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Error is an invalid query with the position of the error in its text. HTTP clients receive it with status 400.
type Error struct {
	Code       string // error code of Cosmos DB; SC1001 is a syntax error
	Start, End int    // offsets in characters of the text; End is exclusive
	Message    string
}

// These are codes of errors.
const (
	codeSyntax     = "SC1001"
	codeString     = "SC1010"
	codeNumber     = "SC1012"
	codeIdentifier = "SC2001"
	codeFunction   = "SC2005"
	codeArguments  = "SC2030"
	codeStar       = "SC2039"
	codeParameter  = "SC2061"
	codeAggregate  = "SC2102"
	codeBound      = "SC3000"
)

// Error returns the message with its position.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (characters %d to %d)", e.Message, e.Start, e.End)
}

// JSON returns the error in the form that clients expect, which is {"errors":[{"severity":"Error","location":..}]}.
func (e *Error) JSON() string {
	type location struct {
		Start int `json:"start"`
		End   int `json:"end"`
	}
	type entry struct {
		Severity string   `json:"severity"`
		Location location `json:"location"`
		Code     string   `json:"code"`
		Message  string   `json:"message"`
	}
	b, _ := json.Marshal(struct {
		Errors []entry `json:"errors"`
	}{[]entry{{"Error", location{e.Start, e.End}, e.Code, e.Message}}})
	return string(b)
}

// LimitError reports that a query exceeds a limit. Its message suggests a solution.
type LimitError struct{ Message string }

func (e *LimitError) Error() string { return e.Message }

// span is a part of the text, in bytes.
type span struct{ start, end int }

func (s span) at() span { return s }

// failure returns an error for a part of the text.
func failure(text string, at span, code, format string, args ...any) *Error {
	end := min(max(at.end, at.start), len(text))
	start := min(at.start, end)
	return &Error{code, utf8.RuneCountInString(text[:start]), utf8.RuneCountInString(text[:end]), fmt.Sprintf(format,
		args...)}
}
