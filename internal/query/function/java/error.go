// SPDX-License-Identifier: Apache-2.0

package java

import (
	"fmt"
	"strings"
)

// Error is the error for a body that cannot be compiled. The text has one line per error. If the text of Cassandra's
// compiler is known, the error contains this text.
type Error struct{ Lines []string }

// Error returns Cassandra's message for a body that does not compile.
func (e *Error) Error() string {
	return "Java source compilation failed:\n" + strings.Join(e.Lines, "\n") + "\n"
}

func at(line int, format string, args ...any) *Error {
	return &Error{[]string{fmt.Sprintf("Line %d: ", line) + fmt.Sprintf(format, args...)}}
}

// unsupported returns the error for a feature of Java that is not supported.
func unsupported(line int, what string) *Error {
	return at(line, "%s is not supported: LANGUAGE java takes simple bodies, which docs/functions.md describes; "+
		"write the function in LANGUAGE javascript", what)
}

// Thrown is an exception that a body or the end of its call throws.
type Thrown struct {
	// Class is the exception's class with its package. Message is its message. HasMessage is false if the message is
	// null.
	Class, Message string
	HasMessage     bool
}

// Error returns the exception in Java's format.
func (t *Thrown) Error() string {
	if !t.HasMessage {
		return t.Class
	}
	return t.Class + ": " + t.Message
}

func throw(class, format string, args ...any) {
	panic(&Thrown{"java.lang." + class, fmt.Sprintf(format, args...), true})
}

// exhausted ends a call that exceeds a limit. If err is set, the call ends because its request must end. A body cannot
// catch it.
type exhausted struct {
	what string
	err  error
}
