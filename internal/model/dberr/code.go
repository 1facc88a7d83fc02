// SPDX-License-Identifier: Apache-2.0

package dberr

import "reflect"

// coded maps codes to error types that consist only of a message. Nodes exchange the codes, which must not change.
// Nodes do not exchange Invalid.Missing.
var coded = map[byte]func(message string) error{
	32: func(m string) error { return &Server{m} },
	33: func(m string) error { return &Protocol{m} },
	34: func(m string) error { return &BadCredentials{m} },
	35: func(m string) error { return &Unauthorized{m} },
	36: func(m string) error { return &Syntax{m} },
	37: func(m string) error { return &Invalid{Message: m} },
	38: func(m string) error { return &Config{m} },
	47: func(m string) error { return &Truncate{m} },
}

// codes maps the types of these errors to their codes.
var codes = func() map[reflect.Type]byte {
	out := map[reflect.Type]byte{}
	for code, e := range coded {
		out[reflect.TypeOf(e(""))] = code
	}
	return out
}()

// CodeOf returns the code of an error that consists only of a message, or 0 for other errors. An error that wraps such
// an error contains more information and has no code.
func CodeOf(err error) byte { return codes[reflect.TypeOf(err)] }

// WithCode returns the error with the given code and message, or nil for an unknown code.
func WithCode(code byte, message string) error {
	if e := coded[code]; e != nil {
		return e(message)
	}
	return nil
}
