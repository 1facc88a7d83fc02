// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"hash"
	"strings"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// maskFactories returns the functions that mask values. Column masks use these functions.
func maskFactories() []*factory {
	whole := parameter{text: "any"}
	texts := parameter{text: "[text|varchar|ascii]", takes: anyOf(cqltype.Text, cqltype.Ascii), otherwise: tText,
		wants: "an argument of type [text|varchar|ascii]"}
	number := parameter{text: "int", fixed: tInt, takes: fits(tInt), wants: "an argument of type int"}
	text := parameter{text: "text", fixed: tText, takes: fits(tText), wants: "an argument of type text"}
	return []*factory{
		{name: "mask_default", required: 1, params: []parameter{whole}, build: buildMaskDefault},
		{name: "mask_null", required: 1, params: []parameter{whole},
			build: func(name string, args []*cqltype.Type) (*function, error) {
				return mask(name, args[0], args, func([][]byte) ([]byte, error) { return nil, nil }), nil
			}},
		{name: "mask_replace", required: 2, params: []parameter{whole, {text: "any", like: 1}},
			build: func(name string, args []*cqltype.Type) (*function, error) {
				return mask(name, args[0], args, func(values [][]byte) ([]byte, error) { return values[1], nil }), nil
			}},
		{name: "mask_inner", required: 3, params: []parameter{texts, number, number, text}, build: buildMaskPart},
		{name: "mask_outer", required: 3, params: []parameter{texts, number, number, text}, build: buildMaskPart},
		{name: "mask_hash", required: 1, params: []parameter{whole, text}, build: buildMaskHash},
	}
}

// mask returns a masking function that receives null arguments.
func mask(name string, result *cqltype.Type, args []*cqltype.Type, call func([][]byte) ([]byte, error)) *function {
	return &function{name: name, args: args, result: result, pure: true, nulls: true,
		call: func(_ *Bindings, values [][]byte) ([]byte, error) { return call(values) }}
}

func buildMaskDefault(name string, args []*cqltype.Type) (*function, error) {
	value, ok := masked(args[0])
	if !ok {
		return nil, dberr.Invalidf("Function system.%s doesn't support values of more than %d bytes, which type %s has",
			name, maskedBytesMax, args[0])
	}
	return mask(name, args[0], args, func([][]byte) ([]byte, error) { return value, nil }), nil
}

// maskedBytesMax is the maximum size of a mask_default result. A type with a short name can have billions of elements.
const maskedBytesMax = 1 << 20

// masked returns the result of mask_default for a type. The result is zero, an empty collection, or four asterisks. For
// tuples and vectors, each element is masked. If the result is too long, ok is false.
func masked(t *cqltype.Type) (v []byte, ok bool) {
	n := 0
	switch t.Kind {
	case cqltype.Tuple, cqltype.UDT:
		n = len(t.Elems)
	case cqltype.Vector:
		n = t.Dimension
	default:
		return maskedPlain(t), true
	}
	if n > maskedBytesMax {
		return nil, false
	}
	elems, size := make([][]byte, n), 0
	for i := range elems {
		if t.Kind == cqltype.Vector && i > 0 {
			elems[i] = elems[0]
		} else if elems[i], ok = masked(t.Elems[i]); !ok {
			return nil, false
		}
		if size += len(elems[i]); size > maskedBytesMax {
			return nil, false
		}
	}
	if t.Kind == cqltype.Vector {
		return t.AppendVector(nil, elems...), true
	}
	return t.AppendTuple(nil, elems...), true
}

func maskedPlain(t *cqltype.Type) []byte {
	switch t.Kind {
	case cqltype.Ascii, cqltype.Text:
		return []byte("****")
	case cqltype.Boolean, cqltype.Tinyint, cqltype.Varint:
		return []byte{0}
	case cqltype.Smallint:
		return make([]byte, 2)
	case cqltype.Date:
		return fromInt64(tDate, 0)
	case cqltype.Int, cqltype.Float, cqltype.Inet, cqltype.List, cqltype.Set, cqltype.Map:
		return make([]byte, 4)
	case cqltype.Duration:
		return make([]byte, 3)
	case cqltype.Decimal:
		return make([]byte, 5)
	case cqltype.Bigint, cqltype.Counter, cqltype.Double, cqltype.Timestamp, cqltype.Time:
		return make([]byte, 8)
	case cqltype.UUID:
		return make([]byte, 16)
	case cqltype.Timeuuid:
		u := cqltype.MinTimeUUID(0)
		return u[:]
	}
	return []byte{}
}

// buildMaskPart returns mask_inner or mask_outer.
func buildMaskPart(name string, args []*cqltype.Type) (*function, error) {
	outer := name == "mask_outer"
	f := mask(name, args[0], args, func(values [][]byte) ([]byte, error) {
		if values[0] == nil {
			return nil, nil
		}
		padding := "*"
		if len(values) > 3 && values[3] != nil {
			padding = string(values[3])
			if n := utf8.RuneCountInString(padding); n != 1 {
				return nil, dberr.Invalidf("The padding argument for function system.%s should be single-character, "+
					"but '%s' has %d characters.", name, padding, n)
			}
		}
		return maskPart(string(values[0]), kept(values[1]), kept(values[2]), padding, outer), nil
	})
	// A padding character may have up to four bytes, and each extension of the text copies it.
	f.weigh = func(values [][]byte) int { return 12 * len(values[0]) }
	return f, nil
}

// kept converts a term to a number of characters. Null and negative numbers are converted to 0.
func kept(v []byte) int {
	if len(v) != 4 {
		return 0
	}
	return max(0, int(int32(binary.BigEndian.Uint32(v))))
}

// maskPart masks all characters of a text except the characters at both ends. If outer is true, it masks only the
// characters at both ends.
func maskPart(text string, begin, end int, padding string, outer bool) []byte {
	n := utf8.RuneCountInString(text)
	out, i := make([]byte, 0, len(text)), 0
	for _, r := range text {
		if atEnd := i < begin || i >= n-end; atEnd == outer {
			out = append(out, padding...)
		} else {
			out = utf8.AppendRune(out, r)
		}
		i++
	}
	return out
}

// hashes maps Java algorithm names to the hash functions of mask_hash.
var hashes = map[string]func() hash.Hash{
	"MD5": md5.New, "SHA": sha1.New, "SHA-1": sha1.New, "SHA-224": sha256.New224, "SHA-256": sha256.New,
	"SHA-384": sha512.New384, "SHA-512": sha512.New, "SHA-512/224": sha512.New512_224,
	"SHA-512/256": sha512.New512_256,
}

func buildMaskHash(name string, args []*cqltype.Type) (*function, error) {
	return mask(name, tBlob, args, func(values [][]byte) ([]byte, error) {
		algorithm := "SHA-256"
		if len(values) > 1 && values[1] != nil {
			algorithm = string(values[1])
		}
		make := hashes[strings.ToUpper(algorithm)]
		switch {
		case make == nil:
			return nil, dberr.Invalidf("Hash algorithm not found: %s", algorithm)
		case values[0] == nil:
			return nil, nil
		}
		h := make()
		h.Write(values[0])
		return h.Sum(nil), nil
	}), nil
}
