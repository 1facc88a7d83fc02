// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"sort"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// floorFunctions returns floor(time, duration[, start]). The function returns the latest of the times start, start +
// duration, start + 2 * duration, … that does not exceed the given time. The default start is January 1, 1970, or
// midnight for times of day.
func floorFunctions() []*function {
	var fs []*function
	add := func(arg, result, start *cqltype.Type) {
		call := func(_ *Bindings, args [][]byte) ([]byte, error) {
			at, ok := millis(arg, args[0])
			d, okD := cqltype.DecodeDuration(args[1])
			if !ok || !okD {
				return nil, nil
			}
			from := int64(0)
			if len(args) > 2 {
				if from, ok = millis(start, args[2]); !ok {
					return nil, nil
				}
			}
			if arg == tDate && d.Nanos != 0 {
				return nil, dberr.Invalidf("The floor on date values cannot be computed for the %s duration as "+
					"precision is below 1 day", d)
			}
			at, err := floorTime(at, from, d)
			if err != nil {
				return nil, err
			}
			if result == tDate {
				at = floorDiv(at, dayMillis)
			}
			return fromInt64(result, at), nil
		}
		for _, args := range [][]*cqltype.Type{types(arg, tDuration), types(arg, tDuration, start)} {
			fs = append(fs, scalar(true, result, args, call, "floor")...)
		}
	}
	add(tTimeuuid, tTimestamp, tTimestamp)
	add(tTimestamp, tTimestamp, tTimestamp)
	add(tDate, tDate, tDate)
	fs = append(fs, scalar(true, tTime, types(tTime, tDuration), floorTimeOfDay, "floor")...)
	for _, f := range fs {
		f.monotonic = true
	}
	return fs
}

// floorTime returns the floor of a time in milliseconds.
func floorTime(at, from int64, d cqltype.DurationValue) (int64, error) {
	switch {
	case at < from:
		return 0, dberr.Invalidf("The floor function starting time is greater than the provided time")
	case at-from < 0:
		return 0, errRange // the difference exceeds 63 bits
	case d.Months < 0 || d.Days < 0 || d.Nanos < 0:
		return 0, dberr.Invalidf("Negative durations are not supported by the floor function")
	case d.Nanos%int64(time.Millisecond) != 0:
		return 0, dberr.Invalidf("The floor cannot be computed for the %s duration as precision is below 1 millisecond",
			d)
	}
	rest := int64(d.Days)*dayMillis + d.Nanos/int64(time.Millisecond)
	switch {
	case d.Months == 0 && rest == 0:
		return at, nil
	case d.Months == 0:
		return at - (at-from)%rest, nil
	}
	// Months have different lengths, so the number of steps is determined by a search.
	step := func(n int) int64 { return addMonths(from, int64(n)*int64(d.Months)) + int64(n)*rest }
	most := (at-from)/(int64(d.Months)*28*dayMillis+rest) + 1
	n := sort.Search(int(most)+1, func(n int) bool { return step(n) > at })
	return step(n - 1), nil
}

func floorTimeOfDay(_ *Bindings, args [][]byte) ([]byte, error) {
	at, ok := tTime.Kind.Int64(args[0])
	d, okD := cqltype.DecodeDuration(args[1])
	switch {
	case !ok || !okD:
		return nil, nil
	case d.Months < 0 || d.Days < 0 || d.Nanos < 0:
		return nil, dberr.Invalidf("Negative durations are not supported by the floor function")
	case d.Months != 0 || d.Days != 0 || d.Nanos > int64(24*time.Hour):
		return nil, dberr.Invalidf("For time values, the floor can only be computed for durations smaller that a day")
	case d.Nanos == 0:
		return args[0], nil
	}
	return fromInt64(tTime, at-at%d.Nanos), nil
}
