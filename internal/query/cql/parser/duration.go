// SPDX-License-Identifier: Apache-2.0

package parser

// This file recognizes the three formats of durations. Package cqltype computes the values of durations.

// unitDurationLen returns the length of the duration at the beginning of s, or 0 if s does not start with a duration.
// The duration consists of digits and units, such as 1y2mo3w4d5h6m7s8ms9us10ns, with the units in any case and order.
// The duration must end at the end of a word. For example, `1LIMIT` is a number and a word.
func unitDurationLen(s string) int {
	p := 0
	for {
		digits := skipDigits(s, p)
		if digits == p {
			break
		}
		unit := unitLen(s[digits:])
		if unit == 0 {
			return 0
		}
		p = digits + unit
	}
	if p > 0 && p < len(s) && classes[s[p]]&classWord != 0 {
		return 0
	}
	return p
}

// unitLen returns the length of the unit at the beginning of s, or 0 if s does not start with a unit.
func unitLen(s string) int {
	if s == "" {
		return 0
	}
	var second byte
	if len(s) > 1 {
		second = s[1] | 0x20
	}
	switch s[0] | 0x20 {
	case 'm':
		if second == 'o' || second == 's' {
			return 2
		}
		return 1
	case 'u', 'n':
		if second == 's' {
			return 2
		}
	case 'y', 'w', 'd', 'h', 's':
		return 1
	}
	if len(s) >= 3 && s[:2] == "µ" && s[2]|0x20 == 's' {
		return 3
	}
	return 0
}

// isoDurationLen returns the length of the ISO 8601 duration at the beginning of s, or 0 if s does not start with a
// duration. s must start with P. The formats are PnYnMnDTnHnMnS, PnW, and PYYYY-MM-DDTHH:MM:SS. Incomplete durations
// such as P, P1, and PT are not durations.
func isoDurationLen(s string) int {
	if isAlternative(s) {
		return len(alternative)
	}
	p := isoPart(s, 1, 'W')
	if p == 1 {
		for _, unit := range []byte("YMD") {
			p = isoPart(s, p, unit)
		}
		if p < len(s) && s[p] == 'T' {
			end := p + 1
			for _, unit := range []byte("HMS") {
				end = isoPart(s, end, unit)
			}
			if end > p+1 {
				p = end
			}
		}
	}
	if p == 1 || p < len(s) && classes[s[p]]&classWord != 0 {
		return 0
	}
	return p
}

// isoPart returns the position after the digits and the unit at p. If the digits or the unit is missing, isoPart
// returns p.
func isoPart(s string, p int, unit byte) int {
	digits := skipDigits(s, p)
	if digits > p && digits < len(s) && s[digits] == unit {
		return digits + 1
	}
	return p
}

// alternative is the pattern of the alternative format of ISO 8601. A 0 in the pattern represents any digit.
const alternative = "P0000-00-00T00:00:00"

func isAlternative(s string) bool {
	if len(s) < len(alternative) {
		return false
	}
	for i := 0; i < len(alternative); i++ {
		if alternative[i] == '0' {
			if classes[s[i]]&classDigit == 0 {
				return false
			}
		} else if s[i] != alternative[i] {
			return false
		}
	}
	return true
}
