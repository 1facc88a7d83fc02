// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strconv"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
)

// keyBytesMax is the maximum total size of partition key values in bytes.
const keyBytesMax = epk.ValueBytesMax

// keyRoom is a size in bytes that is sufficient for most partition keys.
const keyRoom = 64

// valueOf converts a JSON value to a partition key value. Objects and arrays count as missing.
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

// jsonOf converts a partition key value to the JSON value in the item. It returns Undefined if several JSON values are
// possible.
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

// ParseKey parses the partition key header, which contains a JSON array. An array with fewer elements than the
// container's paths is a prefix. An array with more elements is rejected (400).
func (c *Container) ParseKey(header string) (epk.Key, error) {
	v, err := document.Parse([]byte(header), document.Limits{Size: 8 * keyBytesMax})
	if err != nil || v.Kind() != document.Array {
		return nil, Errorf(400, 0, "The partition key must be a JSON array, as in [\"a\"], not %s.",
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

// checkKey rejects a key that is too long.
func checkKey(key epk.Key) error {
	size := 0
	for _, v := range key {
		size += len(v.Text)
	}
	if size > keyBytesMax {
		return Errorf(400, 0, "The partition key has %d bytes, the limit is %d.", size, keyBytesMax)
	}
	return nil
}

// KeyOf extracts the partition key from the JSON of an item.
func (c *Container) KeyOf(body []byte) (epk.Key, error) {
	v, err := document.Parse(body, document.Limits{})
	if err != nil {
		return nil, bodyError(err)
	}
	key := c.Definition.keyOf(v)
	return key, checkKey(key)
}

// keyOf extracts the partition key from an item.
func (d *Definition) keyOf(v document.Value) epk.Key {
	key := make(epk.Key, len(d.keyPaths))
	for i, p := range d.keyPaths {
		key[i] = valueOf(p.KeyOf(v))
	}
	return key
}

// usable rejects a container that is being restored and a key that is a prefix.
func (e *Engine) usable(c *Container, key epk.Key) *Error {
	if bad := e.restored(c); bad != nil {
		return bad
	}
	return c.whole(key)
}

// restored rejects a container that is being restored. Some items of such a container are still missing, and a missing
// item may have the unique key values that a client wants to write.
func (e *Engine) restored(c *Container) *Error {
	if e.opts.Restores == nil || !e.opts.Restores.Restoring(c.table) {
		return nil
	}
	return Errorf(503, 0, "The items of container %s are not available: the container is being restored from a backup. "+
		"Retry when the restore has finished.", strconv.Quote(c.ID))
}

// whole rejects a key that is a prefix.
func (c *Container) whole(key epk.Key) *Error {
	if len(key) == len(c.Definition.Paths) {
		return nil
	}
	return Errorf(400, SubKeyMismatch, "The partition key has %d values, but %d are required for the container's "+
		"paths %v.", len(key), len(c.Definition.Paths), c.Definition.Paths)
}
