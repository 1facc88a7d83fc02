// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"encoding"
	"encoding/json"
)

// None is an empty request or response. It ignores the received bytes.
type None struct{}

// AppendBinary implements encoding.BinaryAppender.
func (None) AppendBinary(b []byte) ([]byte, error) { return b, nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (*None) UnmarshalBinary([]byte) error { return nil }

// Bytes is a request or response whose encoding the caller and the handler define.
type Bytes []byte

// AppendBinary implements encoding.BinaryAppender.
func (v Bytes) AppendBinary(b []byte) ([]byte, error) { return append(b, v...), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It retains b.
func (v *Bytes) UnmarshalBinary(b []byte) error {
	*v = b
	return nil
}

// appendValue appends an encoded request or response.
func appendValue[T any](dst []byte, v *T) ([]byte, error) {
	if e, ok := any(v).(encoding.BinaryAppender); ok {
		return e.AppendBinary(dst)
	}
	b, err := json.Marshal(v)
	return append(dst, b...), err
}

// decodeValue decodes a request or response. v may retain b.
func decodeValue[T any](b []byte, v *T) error {
	if d, ok := any(v).(encoding.BinaryUnmarshaler); ok {
		return d.UnmarshalBinary(b)
	}
	return json.Unmarshal(b, v)
}
