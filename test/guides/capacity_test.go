// SPDX-License-Identifier: Apache-2.0

package guides

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// TestCapacity checks that the tables of docs/capacity.md follow from the price list and from the measurements in
// docs/benchmarks/performance.md.
func TestCapacity(t *testing.T) {
	page, err := os.ReadFile("../../docs/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	measured, err := os.ReadFile("../../docs/benchmarks/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	write := figure(t, string(measured), `Write 1 KB, at the leader \| \*\*([\d.]+)\*\*`)
	read := figure(t, string(measured), `Read 1 KB, QUORUM at the leader, compacted \(fresh\) \| \*\*([\d.]+)\*\*`)
	rows := 0
	for line := range strings.Lines(string(page)) {
		var n []float64
		for _, cell := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(cell), " GB"), 64)
			if err != nil {
				n = nil
				break
			}
			n = append(n, v)
		}
		var want string
		switch len(n) {
		case 6: // columns: reads, KB, writes, KB, index entries, RU
			one := ru.PointRead.Float() + (n[1]-1)*ru.ReadKB.Float()
			other := ru.WriteRow.Float() + (n[3]-1)*ru.WriteKB.Float() + n[4]*ru.WriteIndex.Float()
			want = fmt.Sprintf("%.0f", n[0]*one+n[2]*other)
		case 3:
			if strings.Contains(line, "GB") { // columns: bytes, nodes, disk
				want = fmt.Sprintf("%.0f", math.Ceil(n[0]*4/n[1]/0.7))
			} else { // columns: reads, writes, cores
				want = fmt.Sprintf("%.1f", (n[0]*read+n[1]*write)/1e6/0.6)
			}
		default:
			continue
		}
		rows++
		if got := strconv.FormatFloat(n[len(n)-1], 'f', -1, 64); got != want {
			t.Errorf("%sis %s", line, want)
		}
	}
	if rows != 12 {
		t.Errorf("checked only %d rows", rows)
	}
}

// figure returns the number that a pattern matches in a page.
func figure(t *testing.T, page, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("found no figure for %s", pattern)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
