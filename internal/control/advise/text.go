// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// key returns the primary key of a declaration without the outer parentheses.
func (d *declaration) key() string {
	key := "(" + namesOf(d.partition) + ")"
	if len(d.clustered) > 0 {
		key += ", " + namesOf(d.clustered)
	}
	return key
}

// group formats a whole number with commas.
func group(n float64) string {
	s := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	digits := strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > len(s)-len(digits); i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// roughly formats a number with three significant digits.
func roughly(n float64) string {
	if n < 1000 {
		return number(n)
	}
	step := math.Pow(10, math.Floor(math.Log10(n))-2)
	return group(math.Round(n/step) * step)
}

// number formats a number with three significant digits, or as an integer if it is large.
func number(n float64) string {
	if math.Abs(n) >= 100 {
		return group(n)
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
}

// bytesText formats a size in decimal units.
func bytesText(n float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for ; n >= 1000 && i < len(units)-1; i++ {
		n /= 1000
	}
	if n >= 100 || i == 0 {
		return strconv.FormatFloat(n, 'f', 0, 64) + " " + units[i]
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " " + units[i]
}

// joined joins words with "and".
func joined(words []string) string { return strings.Join(words, " and ") }

// text formats a number with its unit.
func (u Unit) text(n float64) string {
	switch u {
	case Bytes:
		return bytesText(n)
	case Percent:
		return number(n) + " %"
	case RU, RUPerSec:
		return number(n) + " " + string(u)
	case Days:
		return number(n) + " days"
	case Count:
		if n >= 1e6 {
			return roughly(n)
		}
	}
	return number(n)
}

// String formats a fact as one line.
func (f *Fact) String() string { return f.What + ": " + f.Unit.text(f.Value) }

// String formats a change as one line.
func (c *Change) String() string {
	s := strings.TrimSpace(c.What) + ": " + c.Unit.text(c.Before) + " -> " + c.Unit.text(c.After)
	return s + c.offBy()
}

func (c *Change) offBy() string {
	if c.OffBy == 0 {
		return ""
	}
	return fmt.Sprintf(" (+-%s %%)", number(math.Ceil(c.OffBy)))
}

// WriteTo writes a readable report.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	switch n := len(r.Findings); n {
	case 0:
		fmt.Fprintf(&b, "%s: no findings\n", r.Table)
	case 1:
		fmt.Fprintf(&b, "%s: 1 finding\n", r.Table)
	default:
		fmt.Fprintf(&b, "%s: %d findings\n", r.Table, n)
	}
	r.Figures.write(&b)
	shown := map[string]int{}
	for i := range r.Findings {
		r.Findings[i].write(&b, i+1, shown)
	}
	return b.WriteTo(w)
}

func (f *Figures) write(b *bytes.Buffer) {
	about := "about "
	if f.Complete {
		about = ""
	}
	fmt.Fprintf(b, "  %s on disk in %s; %s%s, %s", bytesText(float64(f.DiskBytes)),
		plural(float64(f.PhysicalPartitions), "physical partition"), about,
		plural(f.LogicalPartitions, "logical partition"), plural(f.Rows, "row"))
	if !f.Complete {
		fmt.Fprintf(b, " (%s of them sampled)", group(float64(f.Sampled)))
	}
	if f.Surveyed < f.PhysicalPartitions {
		fmt.Fprintf(b, "; no data from %s", plural(float64(f.PhysicalPartitions-f.Surveyed),
			"physical partition"))
	}
	b.WriteByte('\n')
	if f.LogicalPartitions == 0 {
		return
	}
	fmt.Fprintf(b, "  logical partition size: median %s, 99th percentile %s, maximum %s (%s)\n",
		bytesText(f.MedianBytes),
		bytesText(f.P99Bytes), bytesText(f.Largest.Bytes), f.LargestKey)
	fmt.Fprintf(b, "  largest logical partition: %s, %s; calculated: %s, %s\n", plural(f.Largest.Rows, "row"),
		plural(f.Largest.Values, "value"), plural(f.Expected.Values, "value"), bytesText(f.Expected.Bytes))
}

func plural(n float64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return roughly(n) + " " + what + "s"
}

func (f *Finding) write(b *bytes.Buffer, n int, shown map[string]int) {
	fmt.Fprintf(b, "\n%d. %s (%s): %s\n", n, strings.ToUpper(string(f.Level)), f.Kind, f.Headline)
	b.WriteString("   Evidence\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i := range f.Evidence {
		fmt.Fprintf(w, "     %s\t%s\n", f.Evidence[i].What, f.Evidence[i].Unit.text(f.Evidence[i].Value))
	}
	_ = w.Flush()
	b.WriteString("   Proposal\n")
	for _, line := range wrapped(f.Proposal.Text, 100) {
		fmt.Fprintf(b, "     %s\n", line)
	}
	if before := shown[f.Proposal.DDL]; before > 0 {
		fmt.Fprintf(b, "     The table and the effect are the same as in finding %d.\n", before)
		return
	}
	if f.Proposal.DDL != "" {
		shown[f.Proposal.DDL] = n
		fmt.Fprintf(b, "\n       %s\n\n", strings.ReplaceAll(f.Proposal.DDL, "\n", "\n       "))
	}
	for _, other := range f.Proposal.Instead {
		fmt.Fprintf(b, "     Alternative: %s\n", other)
	}
	if len(f.Effect) == 0 {
		return
	}
	fmt.Fprintf(b, "   Effect (%s)\n", f.Basis)
	fmt.Fprint(w, "     \tNOW\tPROPOSED\n")
	for i := range f.Effect {
		c := &f.Effect[i]
		fmt.Fprintf(w, "     %s\t%s\t%s%s\n", c.What, c.Unit.text(c.Before), c.Unit.text(c.After), c.offBy())
	}
	_ = w.Flush()
}

// wrapped breaks a text into lines.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
