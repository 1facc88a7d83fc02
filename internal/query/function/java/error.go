// SPDX-License-Identifier: Apache-2.0

package java

import (
	"fmt"
	"strings"
)

// Error is the error for a body that cannot be compiled. The text contains one line per error. If the error text of
// Cassandra's compiler is known, the Error contains this text.
type Error struct{ Lines []string }

// Error returns Cassandra's message for a body that does not compile.
func (e *Error) Error() string {
	return "Java source compilation failed:\n" + strings.Join(e.Lines, "\n") + "\n"
}

func at(line int, format string, args ...any) *Error {
	return &Error{[]string{fmt.Sprintf("Line %d: ", line) + fmt.Sprintf(format, args...)}}
}

// unsupported returns the error for an unsupported Java feature.
func unsupported(line int, what string) *Error {
	return at(line, "%s is not supported: LANGUAGE java takes simple bodies, which docs/functions.md describes; "+
		"write the function in LANGUAGE javascript", what)
}

// Thrown is an exception that a call of a body throws.
type Thrown struct {
	// Class is the class name of the exception, including the package. Message is the message of the exception. If the
	// message is null, HasMessage is false.
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

// exhausted is the panic value that ends a call that exceeds a limit. If err is set, the call ends because the request
// must end. A body cannot catch exhausted.
type exhausted struct {
	what string
	err  error
}
