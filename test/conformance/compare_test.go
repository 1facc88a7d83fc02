// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// compare returns the differences between a response and the recorded response, one per line. The recordings' README
// defines the rules.
func compare(st *step, got answer) []string {
	exp := st.Expect
	vol := map[string]bool{}
	for _, v := range st.Volatile {
		vol[v] = true
	}
	if st.Compare == "skip" {
		return nil
	}
	if got.Kind != exp.Kind {
		return []string{fmt.Sprintf("kind: expected %s, got %s", brief(exp), brief(got))}
	}
	if exp.Kind == "error" {
		return compareErrors(st, exp, got, vol)
	}
	var d []string
	differ := func(what string, want, have any) {
		if !vol[what] && !cmp.Equal(want, have) {
			d = append(d, fmt.Sprintf("%s: expected %v, got %v", what, want, have))
		}
	}
	if exp.Columns != nil {
		differ("columns", exp.Columns, got.Columns)
	}
	if exp.BindTypes != nil {
		differ("bind_types", exp.BindTypes, got.BindTypes)
	}
	if exp.PKIndexes != nil {
		differ("pk_indexes", exp.PKIndexes, got.PKIndexes)
	}
	if exp.MorePages != nil && got.MorePages != nil {
		differ("more_pages", *exp.MorePages, *got.MorePages)
	}
	differ("change", exp.Change, got.Change)
	differ("target", exp.Target, got.Target)
	differ("keyspace", exp.Keyspace, got.Keyspace)
	differ("name", exp.Name, got.Name)
	if len(exp.Warnings)+len(got.Warnings) > 0 {
		differ("warnings", exp.Warnings, got.Warnings)
	}
	if exp.Kind == "rows" && !vol["rows"] {
		d = append(d, compareRows(st, exp, got, vol)...)
	}
	return d
}

func compareErrors(st *step, exp, got answer, vol map[string]bool) []string {
	if exp.Code != got.Code {
		return []string{fmt.Sprintf("code: expected %s, got %s", brief(exp), brief(got))}
	}
	if st.Compare == "code_only" || vol["message"] {
		return nil
	}
	var d []string
	if normal(exp.Message) != normal(got.Message) {
		d = append(d, fmt.Sprintf("message: expected %q, got %q", exp.Message, got.Message))
	}
	if !cmp.Equal(exp.Already, got.Already) {
		d = append(d, fmt.Sprintf("already: expected %v, got %v", exp.Already, got.Already))
	}
	return d
}

var (
	signatures = regexp.MustCompile(`(signatures: )(.*)(\)(?:$|: use type casts))`)
	overload   = regexp.MustCompile(`, ([\w".]+ : \()`)
)

// normal sorts the list of overloads in a message, because Cassandra returns them in hash order.
func normal(m string) string {
	g := signatures.FindStringSubmatchIndex(m)
	if g == nil {
		return m
	}
	parts := strings.Split(overload.ReplaceAllString(m[g[4]:g[5]], "\x00$1"), "\x00")
	sort.Strings(parts)
	return m[:g[3]] + strings.Join(parts, ", ") + m[g[6]:]
}

func compareRows(st *step, exp, got answer, vol map[string]bool) []string {
	want, have := texts(exp, vol), texts(got, vol)
	for j, c := range exp.Columns {
		if strings.Contains(c[0], "ttl(") && (c[1] == "int" || c[1] == "list<int>") {
			forgive(want, have, j, closeTTLs)
		}
		if strings.Contains(c[0], "writetime(") && (c[1] == "bigint" || c[1] == "list<bigint>") {
			forgive(want, have, j, bothOfTheClock)
		}
	}
	if st.Compare == "unordered" {
		less := func(rows [][]string) func(i, j int) bool {
			return func(i, j int) bool { return strings.Join(rows[i], ",") < strings.Join(rows[j], ",") }
		}
		sort.SliceStable(want, less(want))
		sort.SliceStable(have, less(have))
	}
	var d []string
	if len(want) != len(have) {
		d = append(d, fmt.Sprintf("rows: expected %d, got %d", len(want), len(have)))
	}
	for i := 0; i < max(len(want), len(have)) && len(d) < 4; i++ {
		w, h := "-", "-"
		if i < len(want) {
			w = showRow(exp.Columns, want[i])
		}
		if i < len(have) {
			h = showRow(exp.Columns, have[i])
		}
		if w != h {
			d = append(d, fmt.Sprintf("row %d: expected %s, got %s", i, w, h))
		}
	}
	return d
}

// texts returns rows as texts. Values of volatile columns are replaced with blanks.
func texts(a answer, vol map[string]bool) [][]string {
	out := make([][]string, len(a.Rows))
	for i, r := range a.Rows {
		for j, v := range r {
			s := "null"
			if v != nil {
				s = *v
			}
			if j < len(a.Columns) && vol["col:"+a.Columns[j][0]] {
				s = "*"
			}
			out[i] = append(out[i], s)
		}
	}
	return out
}

// forgive accepts cells of a column that differ from the recording. The cells must have the same length, and alike
// must return true.
func forgive(want, have [][]string, column int, alike func(want, have string) bool) {
	for i := range min(len(want), len(have)) {
		if column >= len(want[i]) || column >= len(have[i]) {
			continue
		}
		if w, h := want[i][column], have[i][column]; len(w) == len(h) && alike(w, h) {
			have[i][column] = w
		}
	}
}

// closeTTLs accepts remaining times to live that are up to ten seconds lower than recorded. Both values are 32-bit
// integers, or lists of 32-bit integers, in hexadecimal.
func closeTTLs(want, have string) bool {
	for ; len(want) >= 8; want, have = want[8:], have[8:] {
		w, err1 := strconv.ParseUint(want[:8], 16, 32)
		h, err2 := strconv.ParseUint(have[:8], 16, 32)
		if err1 != nil || err2 != nil || w-h > 10 {
			return false
		}
	}
	return want == have
}

// began is a time before all writes of the replay. recorded is a time before all recordings.
var (
	began    = time.Now()
	recorded = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
)

// bothOfTheClock accepts a timestamp that the server assigned during the recording if the actual timestamp was
// assigned during the replay. It accepts single timestamps, and lists with the same count, lengths, nulls, and
// equalities. Timestamps that a client assigned must be equal.
func bothOfTheClock(want, have string) bool {
	if len(want) == 16 {
		want, have = "0000000100000008"+want, "0000000100000008"+have
	}
	const head = 8 // digits of a count or length
	if len(want) < head || want[:head] != have[:head] {
		return false
	}
	given := map[string]string{}
	for i := head; i+head <= len(want); {
		if want[i:i+head] != have[i:i+head] {
			return false
		}
		i += head
		if want[i-head:i] != "00000008" || i+16 > len(want) {
			continue
		}
		w, h := want[i:i+16], have[i:i+16]
		was, again := given[w]
		fromClock := between(w, recorded, began) && between(h, began, time.Now())
		if w != h && !fromClock || again && was != h {
			return false
		}
		given[w] = h
		i += 16
	}
	return true
}

// between reports whether a timestamp in hexadecimal is between two times.
func between(stamp string, from, to time.Time) bool {
	v, err := strconv.ParseInt(stamp, 16, 64)
	return err == nil && from.UnixMicro() <= v && v <= to.UnixMicro()
}

func showRow(cols [][2]string, row []string) string {
	parts := make([]string, len(row))
	for j, v := range row {
		parts[j] = v
		if j < len(cols) && v != "null" && v != "*" {
			parts[j] = show(cols[j][1], v)
		}
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// show makes a hexadecimal cell readable if that loses no information.
func show(typ, v string) string {
	b, err := hex.DecodeString(v)
	if err != nil {
		return v
	}
	switch typ {
	case "text", "ascii":
		if len(b) > 300 {
			return fmt.Sprintf("%q... (%d bytes, %x)", b[:100], len(b), b[len(b)-20:])
		}
		return strconv.Quote(string(b))
	case "int", "bigint", "smallint", "tinyint", "counter":
		if n, err := strconv.ParseUint(v, 16, 64); err == nil {
			shift := 64 - 8*len(b)
			return strconv.FormatInt(int64(n<<shift)>>shift, 10)
		}
	}
	if len(v) > 300 {
		return fmt.Sprintf("0x%s... (%d bytes)", v[:100], len(b))
	}
	return "0x" + v
}

func brief(a answer) string {
	switch a.Kind {
	case "error":
		return fmt.Sprintf("error %s %q", a.Code, a.Message)
	case "nothing":
		return a.Message
	case "rows":
		var b strings.Builder
		fmt.Fprintf(&b, "%d rows", len(a.Rows))
		for i, r := range texts(a, nil) {
			if i == 3 {
				break
			}
			b.WriteString(" " + showRow(a.Columns, r))
		}
		return b.String()
	}
	return a.Kind
}
