// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// These variables are abbreviations for the native types.
var (
	tAscii     = cqltype.Native(cqltype.Ascii)
	tBigint    = cqltype.Native(cqltype.Bigint)
	tBlob      = cqltype.Native(cqltype.Blob)
	tCounter   = cqltype.Native(cqltype.Counter)
	tDate      = cqltype.Native(cqltype.Date)
	tDecimal   = cqltype.Native(cqltype.Decimal)
	tDouble    = cqltype.Native(cqltype.Double)
	tDuration  = cqltype.Native(cqltype.Duration)
	tFloat     = cqltype.Native(cqltype.Float)
	tInt       = cqltype.Native(cqltype.Int)
	tSmallint  = cqltype.Native(cqltype.Smallint)
	tText      = cqltype.Native(cqltype.Text)
	tTime      = cqltype.Native(cqltype.Time)
	tTimestamp = cqltype.Native(cqltype.Timestamp)
	tTimeuuid  = cqltype.Native(cqltype.Timeuuid)
	tTinyint   = cqltype.Native(cqltype.Tinyint)
	tUUID      = cqltype.Native(cqltype.UUID)
	tVarint    = cqltype.Native(cqltype.Varint)
)

// natives holds the overloads of the native functions by name. The method native creates the functions that depend on
// the statement (token, toJson, and fromJson).
var natives = func() map[string][]*function {
	all := map[string][]*function{}
	for _, list := range [][]*function{timeFunctions(), floorFunctions(), mathFunctions(), blobFunctions(),
		aggregateFunctions(), castFunctions()} {
		for _, f := range list {
			all[f.name] = append(all[f.name], f)
		}
	}
	return all
}()

// scalar returns a function for each of the given names. Cassandra 5.0 introduced second names for some functions.
func scalar(pure bool, result *cqltype.Type, args []*cqltype.Type, call func(*Bindings, [][]byte) ([]byte, error),
	names ...string) []*function {
	var fs []*function
	for _, n := range names {
		fs = append(fs, &function{name: n, args: args, result: result, pure: pure, call: call})
	}
	return fs
}

func types(ts ...*cqltype.Type) []*cqltype.Type { return ts }

const (
	dayMillis = 86400_000
	// uuidEpochMillis is the start of UUID time (1582-10-15) in milliseconds since the Unix epoch. As in Cassandra,
	// times after the end of UUID time in the year 5236 wrap around.
	uuidEpochMillis = -12219292800_000
)

func timeFunctions() []*function {
	var fs []*function
	add := func(list []*function) { fs = append(fs, list...) }
	add(scalar(false, tUUID, nil, func(*Bindings, [][]byte) ([]byte, error) {
		u, err := uuid.NewRandom()
		return u[:], err
	}, "uuid"))
	add(scalar(false, tTimeuuid, nil, func(b *Bindings, _ [][]byte) ([]byte, error) {
		u := b.UUIDs.Next(b.Now.UnixNano())
		return u[:], nil
	}, "now", "currenttimeuuid", "current_timeuuid"))
	add(scalar(false, tTimestamp, nil, func(b *Bindings, _ [][]byte) ([]byte, error) {
		return fromInt64(tTimestamp, b.Now.UnixMilli()), nil
	}, "currenttimestamp", "current_timestamp"))
	add(scalar(false, tDate, nil, func(b *Bindings, _ [][]byte) ([]byte, error) {
		return fromInt64(tDate, floorDiv(b.Now.UnixMilli(), dayMillis)), nil
	}, "currentdate", "current_date"))
	add(scalar(false, tTime, nil, func(b *Bindings, _ [][]byte) ([]byte, error) {
		u := b.Now.UTC()
		return fromInt64(tTime, int64(u.Sub(time.Date(u.Year(), u.Month(), u.Day(), 0, 0, 0, 0, time.UTC)))), nil
	}, "currenttime", "current_time"))

	// from contains the conversion from milliseconds for each possible result type.
	from := map[*cqltype.Type]func(ms int64) []byte{
		tTimestamp: func(ms int64) []byte { return fromInt64(tTimestamp, ms) },
		tBigint:    func(ms int64) []byte { return fromInt64(tBigint, ms) },
		tDate:      func(ms int64) []byte { return dateOf(ms) },
	}
	convert := func(arg, result *cqltype.Type, names ...string) {
		forms := scalar(true, result, types(arg), func(_ *Bindings, args [][]byte) ([]byte, error) {
			ms, ok := millis(arg, args[0])
			if !ok {
				return nil, nil
			}
			return from[result](ms), nil
		}, names...)
		for _, f := range forms {
			f.monotonic = true
		}
		add(forms)
	}
	convert(tTimeuuid, tTimestamp, "dateof")
	convert(tTimeuuid, tBigint, "unixtimestampof")
	convert(tTimeuuid, tDate, "todate", "to_date")
	convert(tTimestamp, tDate, "todate", "to_date")
	convert(tTimeuuid, tTimestamp, "totimestamp", "to_timestamp")
	convert(tDate, tTimestamp, "totimestamp", "to_timestamp")
	convert(tTimeuuid, tBigint, "tounixtimestamp", "to_unix_timestamp")
	convert(tTimestamp, tBigint, "tounixtimestamp", "to_unix_timestamp")
	convert(tDate, tBigint, "tounixtimestamp", "to_unix_timestamp")

	bound := func(make func(int64) [16]byte, names ...string) {
		add(scalar(true, tTimeuuid, types(tTimestamp), func(_ *Bindings, args [][]byte) ([]byte, error) {
			ms, ok := tTimestamp.Kind.Int64(args[0])
			if !ok {
				return nil, nil
			}
			if ms < uuidEpochMillis {
				return nil, dberr.Invalidf("timestamp %d is before the first timeuuid", ms)
			}
			u := make(ms)
			return u[:], nil
		}, names...))
	}
	bound(cqltype.MinTimeUUID, "mintimeuuid", "min_timeuuid")
	bound(cqltype.MaxTimeUUID, "maxtimeuuid", "max_timeuuid")
	return fs
}

// millis converts a timeuuid, timestamp, or date to milliseconds since the epoch. For an empty value, ok is false.
func millis(t *cqltype.Type, v []byte) (ms int64, ok bool) {
	switch t.Kind {
	case cqltype.Timeuuid:
		if len(v) != 16 {
			return 0, false
		}
		return cqltype.TimeUUIDMillis([16]byte(v)), true
	case cqltype.Date:
		days, ok := t.Kind.Int64(v)
		return days * dayMillis, ok
	}
	return t.Kind.Int64(v)
}

// dateOf converts a time in milliseconds to a date in the same way as Cassandra. Before 1970, a day begins one second
// late, because integer division truncates toward zero. Days outside the range of the type wrap around.
func dateOf(ms int64) []byte {
	days := int32(floorDiv(ms, 1000) / (dayMillis / 1000))
	return binary.BigEndian.AppendUint32(nil, uint32(days)^1<<31)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// fromInt64 encodes an integer. If the integer is not in the range of the type, fromInt64 returns null.
func fromInt64(t *cqltype.Type, v int64) []byte {
	w, _ := t.Kind.FromInt64(v)
	return w
}

// blobFunctions returns typeAsBlob and blobAsType for every native type.
func blobFunctions() []*function {
	var fs []*function
	add := func(name string, t *cqltype.Type) {
		fs = append(fs, scalar(true, tBlob, types(t), func(_ *Bindings, args [][]byte) ([]byte, error) {
			return args[0], nil
		},
			name+"asblob", name+"_as_blob")...)
		for _, n := range []string{"blobas" + name, "blob_as_" + name} {
			fs = append(fs, scalar(true, t, types(tBlob), func(_ *Bindings, args [][]byte) ([]byte, error) {
				if t.Validate(args[0]) != nil {
					return nil, dberr.Invalidf("In call to function system.%s, value 0x%s is not a valid binary representation for type %s",
						n, hex.EncodeToString(args[0]), t)
				}
				return args[0], nil
			}, n)...)
		}
	}
	for k := cqltype.Ascii; k <= cqltype.Varint; k++ {
		if k != cqltype.Blob {
			add(cqltype.Native(k).String(), cqltype.Native(k))
		}
	}
	add("varchar", tText)
	return fs
}

// tokenFunction returns token() for the partition key of a table.
func tokenFunction(table *schema.Table) *function {
	f := &function{name: "token", result: tBigint, pure: true}
	for _, c := range table.PartitionKey {
		f.args = append(f.args, c.Type)
	}
	f.call = func(_ *Bindings, args [][]byte) ([]byte, error) {
		var room [64]byte
		return fromInt64(tBigint, int64(table.Token(token.AppendKey(room[:0], args...)))), nil
	}
	return f
}

func toJSONFunction(name string, arg *cqltype.Type) *function {
	return &function{name: name, args: types(arg), result: tText, pure: true, nulls: true,
		weigh: func(args [][]byte) int { return arg.JSONSize(args[0], jsonMax) },
		call: func(_ *Bindings, args [][]byte) ([]byte, error) {
			if args[0] == nil || arg.Hollow(args[0]) {
				return []byte("null"), nil
			}
			return arg.AppendJSON(make([]byte, 0, arg.JSONSize(args[0], jsonMax)), args[0]), nil
		}}
}

// jsonMax is the maximum size of a JSON text in bytes.
const jsonMax = 1 << 30

func fromJSONFunction(name string, result *cqltype.Type, r *compat.Release) *function {
	return &function{name: name, args: types(tText), result: result, pure: true,
		weigh: func(args [][]byte) int { return JSONMemory(args[0]) },
		call: func(_ *Bindings, args [][]byte) ([]byte, error) {
			fail := func(message string) error {
				return &dberr.FunctionFailure{
					Keyspace: "system", Function: name, ArgTypes: []string{"text"}, Message: message,
				}
			}
			of := "execution of 'system." + name + "[text]' failed: "
			parsed, err := cqltype.ParseJSON(string(args[0]))
			if syntax, ok := errors.AsType[*cqltype.JSONError](err); ok {
				return nil, fail(of + "Could not decode JSON string '" + string(args[0]) + "': " + syntax.Class + ": " +
					syntax.Text(r.OldJSON))
			}
			if err != nil || parsed == nil {
				return nil, err
			}
			v, err := result.FromJSON(parsed)
			if bad, ok := errors.AsType[*cqltype.JSONValueError](err); ok {
				if !r.OldJSON {
					of = ""
				}
				return nil, fail(of + "org.apache.cassandra.serializers.MarshalException: " + bad.Text(r.OldJSON))
			}
			return v, err
		}}
}

// JSONMemory returns the approximate memory in bytes for parsing a JSON text.
func JSONMemory(text []byte) int {
	parts := 1
	for _, c := range text {
		if c == ',' || c == ':' || c == '[' || c == '{' {
			parts++
		}
	}
	return 2*len(text) + jsonPartBytes*parts
}

// jsonPartBytes is the estimated memory of a number, member, or array in parsed JSON.
const jsonPartBytes = 80
