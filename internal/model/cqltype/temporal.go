// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// dateEpoch is the wire value of the date 1970-01-01.
const dateEpoch = 1 << 31

const secondsPerDay = 86400

// isInteger reports whether the text consists of an optional minus sign and digits. A text that is an integer is the
// raw value of the type.
func isInteger(s string) bool { return isDigits(strings.TrimPrefix(s, "-")) }

// A scanner reads a date or time from the start of a text.
type scanner struct {
	rest string
	bad  bool
}

// digits reads a number with least to most digits.
func (s *scanner) digits(least, most int) int {
	n := 0
	for n < len(s.rest) && n < most && s.rest[n] >= '0' && s.rest[n] <= '9' {
		n++
	}
	if n < least {
		s.bad = true
		return 0
	}
	v, _ := strconv.Atoi(s.rest[:n])
	s.rest = s.rest[n:]
	return v
}

// accept consumes the next byte if it equals the given byte.
func (s *scanner) accept(c byte) bool {
	if s.rest != "" && s.rest[0] == c {
		s.rest = s.rest[1:]
		return true
	}
	return false
}

func (s *scanner) expect(c byte) {
	if !s.accept(c) {
		s.bad = true
	}
}

// date reads a year, a month, and a day. The year has either four digits, or a sign and more than four digits.
func (s *scanner) date() (year, month, day int) {
	switch {
	case s.accept('-'):
		year = -s.digits(4, 10)
	case s.accept('+'):
		year = s.digits(5, 10)
	default:
		year = s.digits(4, 4)
	}
	s.expect('-')
	month = s.digits(2, 2)
	s.expect('-')
	day = s.digits(2, 2)
	if month < 1 || month > 12 || day < 1 || day > 31 {
		s.bad = true
	}
	return year, month, day
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// daysSinceEpoch is exact for every year that date accepts.
func daysSinceEpoch(year, month, day int) int64 {
	seconds := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix()
	return seconds / secondsPerDay // the time is midnight, so the remainder is 0
}

// looseDate reads the date of a timestamp. As in Cassandra, each number may have up to nine digits if a time of day
// follows. Without a time of day, the date must have the form that date accepts. strict reports whether the date has
// that form.
func (s *scanner) looseDate() (year, month, day int, strict bool) {
	exact := *s
	exact.date()
	strict = !exact.bad
	sign := 1
	if s.accept('-') {
		sign = -1
	} else {
		s.accept('+')
	}
	year = sign * s.digits(1, 9)
	s.expect('-')
	month = s.digits(1, 9)
	s.expect('-')
	day = s.digits(1, 9)
	if month < 1 || month > 12 || day < 1 || day > 31 {
		s.bad = true
	}
	return year, month, day, strict
}

// clock reads HH:mm with optional seconds and an optional fraction, and returns nanoseconds. The time 24:00 is the end
// of the day.
func (s *scanner) clock() int64 {
	hour := s.digits(1, 9)
	s.expect(':')
	minute := s.digits(1, 9)
	second, nanos := 0, 0
	if s.accept(':') {
		second = s.digits(1, 9)
		if s.accept('.') {
			nanos = s.fraction(0)
		}
	}
	if hour > 24 || minute > 59 || second > 59 || hour == 24 && (minute > 0 || second > 0 || nanos > 0) {
		s.bad = true
	}
	return int64(hour)*nanosPerHour + int64(minute)*nanosPerMinute + int64(second)*nanosPerSecond + int64(nanos)
}

// fraction reads least to nine digits after a decimal point, and returns nanoseconds.
func (s *scanner) fraction(least int) int {
	before := len(s.rest)
	nanos := s.digits(least, 9)
	for range 9 - (before - len(s.rest)) {
		nanos *= 10
	}
	return nanos
}

// zone reads the rest of the text as a time zone. The rest can be empty (UTC), Z, or an offset (+hh, +hhmm, or +hh:mm)
// after an optional space. It can also be a space and a name such as EST, GMT+01:00, or Europe/Oslo. It returns a
// named zone, or an offset in seconds.
func (s *scanner) zone() (offset int, named *time.Location) {
	if s.rest == "" {
		return 0, nil
	}
	spaced := s.accept(' ')
	if s.rest == "Z" {
		s.rest = ""
		return 0, nil
	}
	if spaced && s.rest != "" && s.rest[0] != '+' && s.rest[0] != '-' {
		for _, prefix := range []string{"GMT", "UTC", "UT"} {
			if rest, ok := strings.CutPrefix(s.rest, prefix); ok && len(rest) == len("+hh:mm") && rest[3] == ':' {
				s.rest = rest
				return s.offset(), nil
			}
		}
		named = zoneNamed(s.rest)
		s.bad = s.bad || named == nil
		s.rest = ""
		return 0, named
	}
	return s.offset(), nil
}

// offset reads +hh, +hhmm, or +hh:mm, and returns seconds. The maximum is 18 hours.
func (s *scanner) offset() int {
	sign := 1
	if s.accept('-') {
		sign = -1
	} else {
		s.expect('+')
	}
	hours, minutes := s.digits(2, 2), 0
	if s.rest != "" {
		s.accept(':')
		minutes = s.digits(2, 2)
	}
	s.bad = s.bad || s.rest != "" || minutes > 59 || hours*60+minutes > 18*60
	return sign * (hours*3600 + minutes*60)
}

// ParseTimestamp parses the text of a timestamp and returns milliseconds since the epoch. The text is a number, "now",
// or yyyy-mm-dd[( |T)HH:MM[:SS[.fffffffff]]] with an optional zone (default UTC). A day beyond the end of the month
// becomes its last day.
func ParseTimestamp(text string) (int64, error) {
	if strings.EqualFold(text, "now") {
		return time.Now().UnixMilli(), nil
	}
	if isInteger(text) {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, dberr.Invalidf("Unable to make long (for date) from: '%s'", text)
		}
		return v, nil
	}
	s := scanner{rest: text}
	year, month, day, strict := s.looseDate()
	nanos := int64(0)
	switch {
	case s.accept('T'):
		nanos = s.clock()
	case len(s.rest) > 1 && s.rest[0] == ' ' && s.rest[1] >= '0' && s.rest[1] <= '9':
		s.accept(' ')
		nanos = s.clock()
	default:
		s.bad = s.bad || !strict
	}
	offset, named := s.zone()
	if s.bad {
		return 0, dberr.Invalidf("Unable to parse a date/time from '%s'", text)
	}
	day = min(day, daysIn(year, month))
	seconds := daysSinceEpoch(year, month, day)*secondsPerDay + nanos/nanosPerSecond - int64(offset)
	if named != nil {
		seconds = time.Date(year, time.Month(month), day, 0, 0, int(nanos/nanosPerSecond), 0, named).Unix()
	}
	millis := nanos % nanosPerSecond / nanosPerMilli
	const first, last = math.MinInt64/1000 - 1, math.MaxInt64 / 1000
	if seconds < first || seconds > last || seconds == first && millis < 192 || seconds == last && millis > 807 {
		return 0, dberr.Invalidf("Unable to parse a date/time from '%s'", text)
	}
	return seconds*1000 + millis, nil // the product may overflow in the first second, but the sum is correct
}

// parseDate parses the text of a date and returns its wire number. The text is either the number itself or a date in
// the form [-]yyyy-mm-dd.
func parseDate(text string) (uint32, error) {
	if isInteger(text) {
		v, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return 0, dberr.Invalidf("Unable to make unsigned int (for date) from: '%s'", text)
		}
		return uint32(v), nil
	}
	s := scanner{rest: text}
	year, month, day := s.date()
	if s.bad || s.rest != "" || day > daysIn(year, month) {
		return 0, dberr.Invalidf("Unable to coerce '%s' to a formatted date (long)", text)
	}
	days := daysSinceEpoch(year, month, day)
	if days < math.MinInt32 {
		return 0, dberr.Invalidf("Input date %s is less than min supported date -5877641-06-23", text)
	}
	if days > math.MaxInt32 {
		return 0, dberr.Invalidf("Input date %s is greater than max supported date +5881580-07-11", text)
	}
	return uint32(days + dateEpoch), nil
}

// parseTime parses the text of a time of day and returns nanoseconds. The text is either the number itself or a time in
// the form h:m:s[.fffffffff].
func parseTime(text string) (int64, error) {
	if isInteger(text) {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 || v >= nanosPerDay {
			return 0, dberr.Invalidf("Unable to make long (for time) from: '%s'", text)
		}
		return v, nil
	}
	nanos, ok := clockText(strings.TrimSpace(text))
	if !ok {
		return 0, dberr.Invalidf("(TimeType) Unable to coerce '%s' to a formatted time (long)", text)
	}
	return nanos, nil
}

// clockText parses h:m:s[.fffffffff] and returns nanoseconds. Each number may have leading zeros.
func clockText(text string) (int64, bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return 0, false
	}
	second, fraction, fractioned := strings.Cut(parts[2], ".")
	parts[2] = second
	nanos := int64(0)
	if fractioned {
		s := scanner{rest: fraction}
		nanos = int64(s.fraction(1))
		if s.bad || s.rest != "" {
			return 0, false
		}
	}
	for i, unit := range []struct{ most, nanos int64 }{{23, nanosPerHour}, {59, nanosPerMinute}, {59, nanosPerSecond}} {
		v, err := strconv.ParseUint(strings.TrimPrefix(parts[i], "+"), 10, 31)
		if err != nil || int64(v) > unit.most {
			return 0, false
		}
		nanos += int64(v) * unit.nanos
	}
	return nanos, true
}

// appendPadded appends a number with at least width digits.
func appendPadded(dst []byte, v int64, width int) []byte {
	if v < 0 {
		dst, v = append(dst, '-'), -v
	}
	digits := strconv.AppendInt(nil, v, 10)
	for range width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// appendDate appends a date in ISO form. Years with more than four digits have a sign.
func appendDate(dst []byte, days int64) []byte {
	year, month, day := time.Unix(days*secondsPerDay, 0).UTC().Date()
	if year > 9999 {
		dst = append(dst, '+')
	}
	return appendCivil(dst, year, month, day)
}

func appendCivil(dst []byte, year int, month time.Month, day int) []byte {
	dst = append(appendPadded(dst, int64(year), 4), '-')
	dst = append(appendPadded(dst, int64(month), 2), '-')
	return appendPadded(dst, int64(day), 2)
}

// appendTime appends hh:mm:ss.nnnnnnnnn. The fraction is always present.
func appendTime(dst []byte, nanos int64) []byte {
	dst = append(appendPadded(dst, nanos/nanosPerHour, 2), ':')
	dst = append(appendPadded(dst, nanos/nanosPerMinute%60, 2), ':')
	dst = append(appendPadded(dst, nanos/nanosPerSecond%60, 2), '.')
	return appendPadded(dst, nanos%nanosPerSecond, 9)
}

// appendTimestamp appends a timestamp in UTC. It appends yyyy-mm-dd, a separator, hh:mm:ss.mmm, and the suffix. Years
// with more than four digits have a sign. ParseTimestamp accepts all of these texts.
func appendTimestamp(dst []byte, millis int64, separator byte, suffix string) []byte {
	t := time.UnixMilli(millis).UTC()
	year, month, day := t.Date()
	if year > 9999 {
		dst = append(dst, '+')
	}
	dst = append(appendCivil(dst, year, month, day), separator)
	dst = append(appendPadded(dst, int64(t.Hour()), 2), ':')
	dst = append(appendPadded(dst, int64(t.Minute()), 2), ':')
	dst = append(appendPadded(dst, int64(t.Second()), 2), '.')
	return append(appendPadded(dst, int64(t.Nanosecond())/nanosPerMilli, 3), suffix...)
}

// plainYear reports whether a timestamp's year has four digits. The text of such a timestamp can be parsed again.
func plainYear(millis int64) bool {
	year := time.UnixMilli(millis).UTC().Year()
	return year >= 1 && year <= 9999
}
