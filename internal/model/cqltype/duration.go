// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// DurationValue is a duration in months, days, and nanoseconds. These units cannot be converted into each other. All
// three numbers have the same sign.
type DurationValue struct {
	Months, Days int32
	Nanos        int64
}

// These are units of time in nanoseconds.
const (
	nanosPerMicro  = 1000
	nanosPerMilli  = 1000 * nanosPerMicro
	nanosPerSecond = 1000 * nanosPerMilli
	nanosPerMinute = 60 * nanosPerSecond
	nanosPerHour   = 60 * nanosPerMinute
	nanosPerDay    = 24 * nanosPerHour
)

// readVint decodes one of Cassandra's zigzag-encoded variable-length integers. See readUvint.
func readVint(b []byte) (v int64, rest []byte, ok bool) {
	u, rest, ok := readUvint(b)
	return int64(u>>1) ^ -int64(u&1), rest, ok
}

func appendVint(dst []byte, v int64) []byte {
	return appendUvint(dst, uint64(v<<1^v>>63))
}

// readDuration decodes the three numbers without checking their ranges. As in Cassandra, any bytes after the numbers
// are ignored.
func readDuration(wire []byte) (months, days, nanos int64, ok bool) {
	months, wire, ok = readVint(wire)
	if ok {
		days, wire, ok = readVint(wire)
	}
	if ok {
		nanos, _, ok = readVint(wire)
	}
	return months, days, nanos, ok
}

// DecodeDuration decodes a duration. ok is false for null or invalid bytes.
func DecodeDuration(wire []byte) (d DurationValue, ok bool) {
	if validateDuration(wire) != nil {
		return DurationValue{}, false
	}
	months, days, nanos, ok := readDuration(wire)
	return DurationValue{int32(months), int32(days), nanos}, ok
}

// EncodeDuration encodes a duration.
func EncodeDuration(d DurationValue) []byte {
	dst := appendVint(nil, int64(d.Months))
	dst = appendVint(dst, int64(d.Days))
	return appendVint(dst, d.Nanos)
}

// durationUnits lists the units in the order that a duration requires. Each unit is a multiple of a month, a day, or a
// nanosecond.
var durationUnits = [...]struct {
	symbol, name        string
	months, days, nanos uint64
}{
	{"y", "years", 12, 0, 0},
	{"mo", "months", 1, 0, 0},
	{"w", "weeks", 0, 7, 0},
	{"d", "days", 0, 1, 0},
	{"h", "hours", 0, 0, nanosPerHour},
	{"m", "minutes", 0, 0, nanosPerMinute},
	{"s", "seconds", 0, 0, nanosPerSecond},
	{"ms", "milliseconds", 0, 0, nanosPerMilli},
	{"us", "microseconds", 0, 0, nanosPerMicro},
	{"ns", "nanoseconds", 0, 0, 1},
}

// String returns the text in Cassandra's format, such as -1y2mo3d4h. The zero duration is the empty text.
func (d DurationValue) String() string {
	var b []byte
	if d.Months < 0 || d.Days < 0 || d.Nanos < 0 {
		b = append(b, '-')
	}
	left := [3]uint64{magnitude(int64(d.Months)), magnitude(int64(d.Days)), magnitude(d.Nanos)}
	for _, u := range durationUnits {
		if u.symbol == "w" {
			continue // parsed, but never formatted
		}
		for i, unit := range [3]uint64{u.months, u.days, u.nanos} {
			if unit == 0 || left[i] < unit {
				continue
			}
			b = strconv.AppendUint(b, left[i]/unit, 10)
			b = append(b, u.symbol...)
			left[i] %= unit
		}
	}
	return string(b)
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return uint64(-v)
	}
	return uint64(v)
}

// These are the forms of a duration.
var (
	durationStandard  = regexp.MustCompile(`(?i)^(\d+(y|mo|w|d|h|m|s|ms|us|µs|μs|ns))+$`)
	durationPart      = regexp.MustCompile(`(?i)(\d+)(mo|ms|us|µs|μs|ns|y|w|d|h|m|s)`)
	durationISO       = regexp.MustCompile(`^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$`)
	durationISOWeeks  = regexp.MustCompile(`^P(\d+)W$`)
	durationISOAltern = regexp.MustCompile(`^P(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})$`)
)

// ParseDuration parses a duration in any of CQL's forms. Each form can have a leading minus sign. Examples are
// 1y2mo3w4d5h6m7s8ms9us10ns, P1Y2M3DT4H5M6S, P5W, and P0001-02-03T04:05:06. Errors are of the type *dberr.Invalid.
func ParseDuration(s string) (DurationValue, error) {
	text, negative := strings.CutPrefix(s, "-")
	var d duration
	switch {
	case strings.HasPrefix(text, "P"):
		units := []string{"y", "mo", "d", "h", "m", "s"}
		m := durationISO.FindStringSubmatch(text)
		if w := durationISOWeeks.FindStringSubmatch(text); w != nil {
			m, units = w, []string{"w"}
		} else if a := durationISOAltern.FindStringSubmatch(text); a != nil {
			m = a
		}
		if m == nil || text == "P" {
			return DurationValue{}, dberr.Invalidf("Unable to convert '%s' to a duration", s)
		}
		for i, number := range m[1:] {
			if number == "" {
				continue
			}
			if err := d.add(number, units[i]); err != nil {
				return DurationValue{}, err
			}
		}
	case durationStandard.MatchString(text):
		for _, part := range durationPart.FindAllStringSubmatch(text, -1) {
			if err := d.add(part[1], strings.ToLower(part[2])); err != nil {
				return DurationValue{}, err
			}
		}
	default:
		return DurationValue{}, dberr.Invalidf("Unable to convert '%s' to a duration", s)
	}
	return d.value(negative), nil
}

// duration is the state of the duration parser. It holds the sums of the units and the last unit.
type duration struct {
	months, days, nanos uint64
	last                int // index in durationUnits + 1
}

func (d *duration) add(number, symbol string) error {
	if symbol == "µs" || symbol == "μs" {
		symbol = "us"
	}
	i := 0
	for durationUnits[i].symbol != symbol {
		i++
	}
	u := durationUnits[i]
	switch {
	case d.last == i+1:
		return dberr.Invalidf("Invalid duration. The %s are specified multiple times", u.name)
	case d.last > i+1:
		return dberr.Invalidf("Invalid duration. The %s should be after %s", durationUnits[d.last-1].name, u.name)
	}
	d.last = i + 1
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return dberr.Invalidf("Invalid duration. The number of %s is too large: %s", u.name, number)
	}
	for _, part := range [...]struct {
		sum         *uint64
		unit, limit uint64
		name        string
	}{
		{&d.months, u.months, math.MaxInt32, "months"},
		{&d.days, u.days, math.MaxInt32, "days"},
		{&d.nanos, u.nanos, math.MaxInt64, "nanoseconds"},
	} {
		if part.unit == 0 {
			continue
		}
		if n > (part.limit-*part.sum)/part.unit {
			return dberr.Invalidf("Invalid duration. The total number of %s must be less or equal to %d", part.name,
				part.limit)
		}
		*part.sum += n * part.unit
	}
	return nil
}

func (d *duration) value(negative bool) DurationValue {
	if negative {
		return DurationValue{-int32(d.months), -int32(d.days), -int64(d.nanos)}
	}
	return DurationValue{int32(d.months), int32(d.days), int64(d.nanos)}
}
