// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"fmt"
	"strconv"
	"time"
)

// size formats a number of bytes. It selects a suitable unit.
func size(b uint64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if float64(b) >= u.of {
			return fmt.Sprintf("%.1f %s", float64(b)/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d B", b)
}

// count formats a number with thin spaces between groups of thousands.
func count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// rate formats a value per second. Values of 10 or more have no decimals.
func rate(f float64) string {
	if f > 0 && f < 10 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return count(uint64(max(f, 0) + 0.5))
}

// percent formats a fraction from 0 to 1.
func percent(part float64) string { return fmt.Sprintf("%.0f\u202f%%", 100*part) }

// short returns the first digits of a node ID. Tools accept this form.
func short(id string) string { return id[:min(8, len(id))] }

// millis formats milliseconds.
func millis(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

// ago formats a time span that is given in seconds.
func ago(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }
