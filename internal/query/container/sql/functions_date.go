// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
)

// dateFunctions contains functions that process times. A time is a UTC string such as 2020-01-02T03:04:05.1234567Z, a
// number of ticks (100 ns since 1970), or a timestamp (ms since 1970). The current time is the time of the run. All
// calls in one run therefore return the same value.
var dateFunctions = map[string]builtin{
	"GETCURRENTDATETIME":        now(func(t time.Time) document.Value { return formatTime(t) }),
	"GETCURRENTDATETIMESTATIC":  now(func(t time.Time) document.Value { return formatTime(t) }),
	"GETCURRENTTIMESTAMP":       now(func(t time.Time) document.Value { return document.IntegerValue(t.UnixMilli()) }),
	"GETCURRENTTIMESTAMPSTATIC": now(func(t time.Time) document.Value { return document.IntegerValue(t.UnixMilli()) }),
	"GETCURRENTTICKS":           now(func(t time.Time) document.Value { return document.IntegerValue(ticks(t)) }),
	"GETCURRENTTICKSSTATIC":     now(func(t time.Time) document.Value { return document.IntegerValue(ticks(t)) }),
	"DATETIMEADD": pure(3, 3, func(a []document.Value) document.Value {
		u, ok1 := unitOf(a[0])
		n, ok2 := integer(a[1])
		t, ok3 := timeOf(a[2])
		if !ok1 || !ok2 || !ok3 || n > unitsMax || n < -unitsMax {
			return undefined
		}
		return formatTime(u.add(t, n))
	}),
	"DATETIMEDIFF": pure(3, 3, func(a []document.Value) document.Value {
		u, ok1 := unitOf(a[0])
		from, ok2 := timeOf(a[1])
		to, ok3 := timeOf(a[2])
		if !ok1 || !ok2 || !ok3 {
			return undefined
		}
		return document.IntegerValue(u.number(to) - u.number(from))
	}),
	// Cosmos DB's documentation has used both argument orders.
	"DATETIMEPART": pure(2, 2, func(a []document.Value) document.Value {
		if n, ok := datePart(a[0], a[1]); ok {
			return document.IntegerValue(n)
		}
		if n, ok := datePart(a[1], a[0]); ok {
			return document.IntegerValue(n)
		}
		return undefined
	}),
	"DATETIMEFORMAT": {f: dateTimeFormat, min: 2, max: 2},
	"YEAR":           datePartFunction("year"),
	"MONTH":          datePartFunction("month"),
	"DAY":            datePartFunction("day"),
	"NOW":            now(func(t time.Time) document.Value { return formatTime(t) }),
	"AGO": {min: 2, max: 2, volatile: true, f: func(e *env, a []document.Value) document.Value {
		u, ok1 := unitOf(a[0])
		n, ok2 := integer(a[1])
		if !ok1 || !ok2 || n > unitsMax || n < -unitsMax {
			return undefined
		}
		return formatTime(u.add(e.now.UTC(), -n))
	}},
	"DATETIMEFROMPARTS": pure(3, 7, func(a []document.Value) document.Value {
		parts := [7]int{0, 1, 1}
		for i, v := range a {
			n, ok := integer(v)
			if !ok {
				return undefined
			}
			parts[i] = n
		}
		t := time.Date(parts[0], time.Month(parts[1]), parts[2], parts[3], parts[4], parts[5], 0, time.UTC)
		same := t.Year() == parts[0] && int(t.Month()) == parts[1] && t.Day() == parts[2] && t.Hour() == parts[3] &&
			t.Minute() == parts[4] && t.Second() == parts[5]
		if !same || parts[6] < 0 || parts[6] > 9_999_999 {
			return undefined
		}
		return formatTime(t.Add(time.Duration(parts[6]) * 100))
	}),
	"DATETIMEBIN": pure(2, 4, dateTimeBin),
	"DATETIMETOTICKS": pure(1, 1, func(a []document.Value) document.Value {
		t, ok := timeOf(a[0])
		if !ok {
			return undefined
		}
		return document.IntegerValue(ticks(t))
	}),
	"DATETIMETOTIMESTAMP": pure(1, 1, func(a []document.Value) document.Value {
		t, ok := timeOf(a[0])
		if !ok {
			return undefined
		}
		return document.IntegerValue(t.UnixMilli())
	}),
	"TICKSTODATETIME": pure(1, 1, func(a []document.Value) document.Value {
		n, ok := int64Of(a[0])
		if !ok {
			return undefined
		}
		return formatTime(time.Unix(n/ticksPerSecond, n%ticksPerSecond*100))
	}),
	"TIMESTAMPTODATETIME": pure(1, 1, func(a []document.Value) document.Value {
		n, ok := int64Of(a[0])
		if !ok {
			return undefined
		}
		return formatTime(time.UnixMilli(n))
	}),
}

const (
	ticksPerSecond = 10_000_000
	// epochSeconds is the number of seconds from the beginning of year 1 to the beginning of 1970.
	epochSeconds = 62_135_596_800
	// unitsMax is the maximum number of units that a function can add to a time.
	unitsMax = 1e13
)

func ticks(t time.Time) int64 {
	return t.Unix()*ticksPerSecond + int64(t.Nanosecond())/100
}

func now(f func(time.Time) document.Value) builtin {
	return builtin{f: func(e *env, _ []document.Value) document.Value { return f(e.now.UTC()) }, volatile: true}
}

// formatTime returns Undefined for years that do not have four digits.
func formatTime(t time.Time) document.Value {
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return undefined
	}
	return document.StringValue(fmt.Sprintf("%s.%07dZ", t.Format("2006-01-02T15:04:05"), t.Nanosecond()/100))
}

// layouts contains the accepted time formats.
var layouts = []string{"2006-01-02T15:04:05Z", "2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z",
	"2006-01-02T15:04", "2006-01-02", "2006-01"}

func timeOf(v document.Value) (time.Time, bool) {
	if v.Kind() != document.String {
		return time.Time{}, false
	}
	for _, layout := range layouts {
		// Every layout with seconds also accepts fractions of a second.
		if t, err := time.Parse(layout, v.Str()); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// unit is a part of a date and time.
type unit struct {
	months int           // months of a year or month, or 0 for other units
	length time.Duration // duration of the other units
}

var unitNames = map[string]unit{}

func init() {
	for u, names := range map[unit][]string{
		{months: 12}:               {"year", "yyyy", "yy"},
		{months: 1}:                {"month", "mm", "m"},
		{length: 24 * time.Hour}:   {"day", "dd", "d"},
		{length: time.Hour}:        {"hour", "hh"},
		{length: time.Minute}:      {"minute", "mi", "n"},
		{length: time.Second}:      {"second", "ss", "s"},
		{length: time.Millisecond}: {"millisecond", "ms"},
		{length: time.Microsecond}: {"microsecond", "mcs"},
		{length: time.Nanosecond}:  {"nanosecond", "ns"},
	} {
		for _, n := range names {
			unitNames[n] = u
		}
	}
}

func unitOf(v document.Value) (unit, bool) {
	u, ok := unitNames[v.Str()]
	return u, ok
}

// weekdayNames contains the names of the weekday part, which only DateTimePart supports. 1 is Sunday, and 7 is
// Saturday.
var weekdayNames = []string{"weekday", "dw", "w"}

// datePart returns the named part of a time.
func datePart(part, at document.Value) (int64, bool) {
	t, ok := timeOf(at)
	if !ok {
		return 0, false
	}
	if slices.Contains(weekdayNames, part.Str()) {
		return int64(t.Weekday()) + 1, true
	}
	u, ok := unitOf(part)
	return u.part(t), ok
}

// datePartFunction returns a function that returns a part of its only argument, which is a time.
func datePartFunction(part string) builtin {
	name := document.StringValue(part)
	return pure(1, 1, func(a []document.Value) document.Value {
		n, ok := datePart(name, a[0])
		if !ok {
			return undefined
		}
		return document.IntegerValue(n)
	})
}

// add adds n units to t. If the resulting month is too short, add uses the last day of the month.
func (u unit) add(t time.Time, n int) time.Time {
	if u.months == 0 {
		seconds := int64(u.length / time.Second)
		if seconds > 0 {
			return time.Unix(t.Unix()+int64(n)*seconds, int64(t.Nanosecond()))
		}
		per := int(time.Second / u.length)
		return time.Unix(t.Unix()+int64(n/per), int64(t.Nanosecond())+int64(n%per)*int64(u.length))
	}
	if n > 120_000 || n < -120_000 {
		return time.Time{}.AddDate(-1, 0, 0)
	}
	first := time.Date(t.Year(), t.Month()+time.Month(n*u.months), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return time.Date(first.Year(), first.Month(), min(t.Day(), last), t.Hour(), t.Minute(), t.Second(),
		t.Nanosecond(), time.UTC)
}

// number returns the number of units between t and a common boundary of all units.
func (u unit) number(t time.Time) int64 {
	if u.months != 0 {
		return int64((t.Year()*12 + int(t.Month()) - 1) / u.months)
	}
	if u.length >= time.Second {
		// The count starts at year 1, because the division must not round toward 1970.
		return (t.Unix() + epochSeconds) / int64(u.length/time.Second)
	}
	return t.Unix()*int64(time.Second/u.length) + int64(t.Nanosecond())/int64(u.length)
}

// part returns the value of the unit in t.
func (u unit) part(t time.Time) int64 {
	switch {
	case u.months == 12:
		return int64(t.Year())
	case u.months == 1:
		return int64(t.Month())
	case u.length == 24*time.Hour:
		return int64(t.Day())
	case u.length == time.Hour:
		return int64(t.Hour())
	case u.length == time.Minute:
		return int64(t.Minute())
	case u.length == time.Second:
		return int64(t.Second())
	}
	return int64(t.Nanosecond()) / int64(u.length)
}

// dateTimeBin rounds a time down to a multiple of a number of units since an origin.
func dateTimeBin(a []document.Value) document.Value {
	t, ok1 := timeOf(a[0])
	u, ok2 := unitOf(a[1])
	size, begin := 1, time.Unix(0, 0)
	if len(a) > 2 {
		var ok bool
		if size, ok = integer(a[2]); !ok {
			return undefined
		}
	}
	if len(a) > 3 {
		var ok bool
		if begin, ok = timeOf(a[3]); !ok || begin.Year() < 1601 {
			return undefined
		}
	}
	if !ok1 || !ok2 || u.months != 0 || size < 1 || t.Year() < 1700 || t.Year() > 2260 ||
		int64(size) > 1e18/int64(u.length) {
		return undefined
	}
	bin := u.length * time.Duration(size)
	d := t.Sub(begin)
	whole := d / bin * bin
	if d < 0 && whole != d {
		whole -= bin
	}
	return formatTime(begin.Add(whole))
}
