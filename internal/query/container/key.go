// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strconv"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
)

// keyBytesMax bounds the values of a partition key together, in bytes.
const keyBytesMax = epk.ValueBytesMax

// keyRoom is what most partition keys take, in bytes.
const keyRoom = 64

// valueOf is a JSON value as one of a partition key: an object and an array count as none.
func valueOf(v document.Value) epk.Value {
	switch v.Kind() {
	case document.Null:
		return epk.Value{Kind: epk.Null}
	case document.Boolean:
		return epk.Bool(v.IsTrue())
	case document.Number:
		return epk.Float(v.Float())
	case document.String:
		return epk.Text(v.Str())
	}
	return epk.Value{}
}

// jsonOf is a value of a partition key as items have it; Undefined if they may have one or another.
func jsonOf(v epk.Value) document.Value {
	switch v.Kind {
	case epk.Null:
		return document.NullValue
	case epk.False, epk.True:
		return document.BooleanValue(v.Kind == epk.True)
	case epk.Number:
		return document.NumberValue(v.Number)
	case epk.String:
		return document.StringValue(v.Text)
	}
	return document.Value{}
}

// ParseKey reads the partition key header: a JSON array. One that has fewer elements than the container has paths is a
// prefix; one with more is refused (400).
func (c *Container) ParseKey(header string) (epk.Key, error) {
	v, err := document.Parse([]byte(header), document.Limits{Size: 8 * keyBytesMax})
	if err != nil || v.Kind() != document.Array {
		return nil, Errorf(400, 0, "The partition key has to be a JSON array, as in [\"a\"], not %s.",
			strconv.Quote(header))
	}
	key := epk.Key{}
	for e := range v.Elements() {
		key = append(key, valueOf(e))
	}
	if len(key) > len(c.Definition.Paths) {
		return nil, Errorf(400, 0, "The partition key has %d values, but the container has the paths %v.", len(key),
			c.Definition.Paths)
	}
	return key, checkKey(key)
}

// checkKey refuses a key that is too long.
func checkKey(key epk.Key) error {
	size := 0
	for _, v := range key {
		size += len(v.Text)
	}
	if size > keyBytesMax {
		return Errorf(400, 0, "The partition key has %d bytes, at most %d are allowed.", size, keyBytesMax)
	}
	return nil
}

// KeyOf takes the partition key from the JSON of an item.
func (c *Container) KeyOf(body []byte) (epk.Key, error) {
	v, err := document.Parse(body, document.Limits{})
	if err != nil {
		return nil, bodyError(err)
	}
	key := c.Definition.keyOf(v)
	return key, checkKey(key)
}

// keyOf takes the partition key from an item.
func (d *Definition) keyOf(v document.Value) epk.Key {
	key := make(epk.Key, len(d.keyPaths))
	for i, p := range d.keyPaths {
		key[i] = valueOf(p.KeyOf(v))
	}
	return key
}

// usable refuses to touch the items of a container while it is being restored, and a key that is a prefix.
func (e *Engine) usable(c *Container, key epk.Key) *Error {
	if bad := e.restored(c); bad != nil {
		return bad
	}
	return c.whole(key)
}

// restored refuses to touch the items of a container that is being restored: some are not there yet, and one of those
// may have the values of a unique key that a client wants to write.
func (e *Engine) restored(c *Container) *Error {
	if !e.opts.Restoring(c.table) {
		return nil
	}
	return Errorf(503, 0, "The items of container %s cannot be used: it is being restored from a backup. Try again when "+
		"the restore has ended.", strconv.Quote(c.ID))
}

// whole refuses a key that is a prefix.
func (c *Container) whole(key epk.Key) *Error {
	if len(key) == len(c.Definition.Paths) {
		return nil
	}
	return Errorf(400, SubKeyMismatch, "The partition key has %d of the %d values that the paths %v of the container "+
		"need.", len(key), len(c.Definition.Paths), c.Definition.Paths)
}
