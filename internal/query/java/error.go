// SPDX-License-Identifier: Apache-2.0

package java

import (
	"fmt"
	"strings"
)

// Error says why a body cannot be compiled: a line for each thing that is wrong, in the words of the compiler that
// Cassandra has where they are known.
type Error struct{ Lines []string }

// Error is what Cassandra says of a body that does not compile.
func (e *Error) Error() string {
	return "Java source compilation failed:\n" + strings.Join(e.Lines, "\n") + "\n"
}

func at(line int, format string, args ...any) *Error {
	return &Error{[]string{fmt.Sprintf("Line %d: ", line) + fmt.Sprintf(format, args...)}}
}

// unsupported is the error of what Java has and this package has not.
func unsupported(line int, what string) *Error {
	return at(line, "%s is not supported: LANGUAGE java takes simple bodies, which docs/functions.md describes; "+
		"write the function in LANGUAGE javascript", what)
}

// Thrown is an exception that a body has thrown, or what ended it.
type Thrown struct {
	// Class is the exception's with its package, Message its message; HasMessage is false for null.
	Class, Message string
	HasMessage     bool
}

// Error is what Java prints of the exception.
func (t *Thrown) Error() string {
	if !t.HasMessage {
		return t.Class
	}
	return t.Class + ": " + t.Message
}

func throw(class, format string, args ...any) {
	panic(&Thrown{"java.lang." + class, fmt.Sprintf(format, args...), true})
}

// exhausted is what ends a call that takes more than it may, or, with an error, one whose request has to end. No body
// can catch it.
type exhausted struct {
	what string
	err  error
}
