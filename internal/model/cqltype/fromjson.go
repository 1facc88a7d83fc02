// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// JSONValueError reports JSON that is not a value of the type. Cassandra throws a MarshalException in this case. INSERT
// JSON prefixes the message with "Error decoding JSON value for c: ". The function fromJson() prefixes the message with
// "execution of [...] failed: org.apache[...]MarshalException: ". Older is the message of Cassandra 4.0, or empty if
// the messages are the same.
type JSONValueError struct{ Message, Older string }

func (e *JSONValueError) Error() string { return e.Message }

// Text returns the message, or the message of Cassandra 4.0 if old is true.
func (e *JSONValueError) Text(old bool) string { return jsonText(e.Message, e.Older, old) }

func jsonErrorf(format string, args ...any) error {
	return &JSONValueError{Message: fmt.Sprintf(format, args...)}
}

// FromJSON encodes a JSON value that was parsed by ParseJSON, or by encoding/json with UseNumber. JSON's null becomes
// CQL's null. Errors are of the type *JSONValueError, except for a few errors that Cassandra raises as invalid
// requests. Invalid requests are of the type *dberr.Invalid and have no prefix.
func (t *Type) FromJSON(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	if m, ok := v.(map[string]any); ok {
		o := &JSONObject{Names: slices.Sorted(maps.Keys(m))}
		for _, name := range o.Names {
			o.Values = append(o.Values, m[name])
		}
		v = o
	}
	switch t.Kind {
	case List, Set, Map, Tuple, UDT, Vector:
		return composedFromJSON(t, v)
	case Boolean:
		if b, ok := v.(bool); ok {
			return EncodeBoolean(b), nil
		}
	case Tinyint, Smallint, Int, Bigint, Counter, Varint, Decimal, Float, Double:
		return numberFromJSON(t, v)
	case Timestamp:
		if n, ok := v.(json.Number); ok {
			if millis, err := strconv.ParseInt(string(n), 10, 64); err == nil {
				return binary.BigEndian.AppendUint64(nil, uint64(millis)), nil
			}
		}
	case Blob:
		return blobFromJSON(v)
	}
	if s, ok := v.(string); ok {
		return stringFromJSON(t, s)
	}
	return nil, jsonErrorf("Expected %s, but got a %s: %s", jsonExpects(t), javaClass(v), javaString(v))
}

// jsonExpects describes the expected JSON in error texts.
func jsonExpects(t *Type) string {
	switch t.Kind {
	case Ascii:
		return "an ascii string"
	case Text:
		return "a UTF-8 string"
	case Tinyint:
		return "a byte value"
	case Smallint:
		return "a short value"
	case Int:
		return "an int value"
	case Boolean, Bigint, Counter, Float, Double:
		return "a " + t.String() + " value"
	case Inet:
		return "a string representation of an inet value"
	case UUID, Timeuuid, Duration:
		return "a string representation of a " + t.String()
	case Date, Time:
		return "a string representation of a " + t.String() + " value"
	case Timestamp:
		return "a long or a datestring representation of a timestamp value"
	}
	return "a value of type " + t.String()
}

// stringFromJSON parses a native value from a JSON string. It returns only errors in durations as invalid requests.
func stringFromJSON(t *Type, s string) ([]byte, error) {
	wire, err := t.FromText(s)
	if bad, ok := errors.AsType[*dberr.Invalid](err); ok && t.Kind != Duration {
		return nil, &JSONValueError{Message: bad.Message}
	}
	return wire, err
}

func blobFromJSON(v any) ([]byte, error) {
	s, ok := v.(string)
	reason := "not a string"
	if ok {
		digits, prefixed := strings.CutPrefix(s, "0x")
		if prefixed {
			wire, err := Native(Blob).FromText(digits)
			if err == nil {
				return wire, nil
			}
			reason = err.Error()
		} else {
			reason = "String representation of blob is missing 0x prefix: " + s
		}
	}
	return nil, jsonErrorf("Value '%s' is not a valid blob representation: %s", javaString(v), reason)
}

func numberFromJSON(t *Type, v any) ([]byte, error) {
	text, isString := v.(string)
	n, isNumber := v.(json.Number)
	switch {
	case t.Kind == Varint || t.Kind == Decimal:
		// Cassandra parses the text of the number that its JSON parser returns. The JSON parser converts a number with
		// a fraction to a double.
		wire, err := numberFromText(t, javaString(v))
		if err != nil {
			return nil, jsonErrorf("Value '%s' is not a valid representation of a %s value", javaString(v), t)
		}
		return wire, nil
	case isString:
		return stringFromJSON(t, text)
	case !isNumber:
	case t.Kind == Float || t.Kind == Double:
		if f, ok := parseJavaFloat(string(n), 64); ok {
			return t.Kind.FromFloat64(f), nil
		}
	case t.Kind == Tinyint || t.Kind == Smallint:
		return stringFromJSON(t, javaString(v))
	default:
		if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
			if wire, ok := t.Kind.FromInt64(i); ok {
				return wire, nil
			}
		}
	}
	return nil, jsonErrorf("Expected %s, but got a %s: %s", jsonExpects(t), javaClass(v), javaString(v))
}

// composedFromJSON encodes collections, tuples, and UDTs. The keys of a JSON object are JSON texts of the map's keys.
func composedFromJSON(t *Type, v any) ([]byte, error) {
	if s, ok := v.(string); ok {
		inner, err := ParseJSON(s)
		if bad, ok := errors.AsType[*JSONError](err); ok {
			const what = "Error decoding JSON string: "
			return nil, &JSONValueError{Message: what + bad.Text(false), Older: what + bad.Text(true)}
		} else if err != nil {
			return nil, err
		}
		if v = inner; v == nil {
			return nil, nil
		}
	}
	object, isObject := v.(*JSONObject)
	list, isList := v.([]any)
	refuse := func(expected string) error {
		return jsonErrorf("Expected %s, but got a %s: %s", expected, javaClass(v), javaString(v))
	}
	switch t.Kind {
	case Map:
		if !isObject {
			return nil, refuse("a map")
		}
		return mapFromJSON(t, object)
	case UDT:
		if !isObject {
			return nil, refuse("a map")
		}
		return udtFromJSON(t, object)
	case Set:
		if !isList {
			return nil, refuse("a list (representing a set)")
		}
	case Tuple:
		if !isList {
			return nil, refuse("a list representation of a tuple")
		}
		return tupleFromJSON(t, list)
	case List, Vector:
		if !isList {
			return nil, refuse("a list")
		}
	}
	if t.Kind == Vector && len(list) != t.Dimension {
		return nil, jsonErrorf("List had incorrect size: expected %d but given %d; %s", t.Dimension, len(list),
			javaString(list))
	}
	values := make([][]byte, len(list))
	for i, e := range list {
		if e == nil {
			kind := map[Kind]string{List: "list", Set: "set", Vector: "vector"}[t.Kind]
			return nil, jsonErrorf("Invalid null element in %s", kind)
		}
		wire, err := t.Elems[0].FromJSON(e)
		if err != nil {
			return nil, err
		}
		values[i] = wire
	}
	switch t.Kind {
	case Set:
		return t.SortedSet(values), nil
	case Vector:
		return t.AppendVector(nil, values...), nil
	}
	return t.AppendCollection(nil, values...), nil
}

func mapFromJSON(t *Type, o *JSONObject) ([]byte, error) {
	flat := make([][]byte, 0, 2*len(o.Names))
	for i, name := range o.Names {
		if o.Values[i] == nil {
			return nil, jsonErrorf("Invalid null value in map")
		}
		key, err := t.Elems[0].FromJSON(name)
		if err != nil {
			return nil, err
		}
		if key == nil {
			return nil, jsonErrorf("Invalid null key in map")
		}
		value, err := t.Elems[1].FromJSON(o.Values[i])
		if err != nil {
			return nil, err
		}
		flat = append(flat, key, value)
	}
	return t.SortedMap(flat), nil
}

func tupleFromJSON(t *Type, list []any) ([]byte, error) {
	if len(list) > len(t.Elems) {
		return nil, jsonErrorf("Tuple contains extra items (expected %d): %s", len(t.Elems), javaString(list))
	}
	if len(list) < len(t.Elems) {
		return nil, jsonErrorf("Tuple is missing items (expected %d): %s", len(t.Elems), javaString(list))
	}
	values := make([][]byte, len(list))
	for i, e := range list {
		wire, err := t.Elems[i].FromJSON(e)
		if err != nil {
			return nil, err
		}
		values[i] = wire
	}
	return t.AppendTuple(nil, values...), nil
}

func udtFromJSON(t *Type, o *JSONObject) ([]byte, error) {
	values := make([][]byte, len(t.Elems))
	for i, name := range o.Names {
		f := t.FieldIndex(JSONName(name))
		if f < 0 {
			return nil, jsonErrorf("Unknown field '%s' in value of user defined type %s", JSONName(name),
				QuoteName(t.Name))
		}
		wire, err := t.Elems[f].FromJSON(o.Values[i])
		if err != nil {
			return nil, err
		}
		values[f] = wire
	}
	return t.AppendTuple(nil, values...), nil
}

// javaClass returns the simple name of the Java class that Cassandra's JSON parser uses for a value.
func javaClass(v any) string {
	switch v := v.(type) {
	case bool:
		return "Boolean"
	case string:
		return "String"
	case []any:
		return "ArrayList"
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "Double"
		}
		i, err := strconv.ParseInt(string(v), 10, 64)
		switch {
		case err != nil:
			return "BigInteger"
		case i == int64(int32(i)):
			return "Integer"
		}
		return "Long"
	}
	return "LinkedHashMap"
}

// javaString returns the result of Java's toString for a parsed JSON value.
func javaString(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return v
	case json.Number:
		if javaClass(v) != "Double" {
			if len(v) > digitsMax {
				return string(v)
			}
			if i, ok := new(big.Int).SetString(string(v), 10); ok {
				return i.String() // -0 becomes 0
			}
			return string(v)
		}
		f, _ := parseJavaFloat(string(v), 64)
		return string(appendJavaFloat(nil, f, 64))
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = javaString(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *JSONObject:
		parts := make([]string, len(v.Names))
		for i, name := range v.Names {
			parts[i] = name + "=" + javaString(v.Values[i])
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}
