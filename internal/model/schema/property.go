// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Property is one option in a WITH clause, in the form of the statement.
type Property struct {
	Name string
	// Value is the text of a constant, without quotes. If IsMap is true, Map contains the entries.
	Value string
	IsMap bool
	Map   []Entry
}

// Entry is one entry of a map property.
type Entry struct {
	Key   string
	Value string
}

func (p *Property) mapValue() map[string]string {
	m := make(map[string]string, len(p.Map))
	for _, e := range p.Map {
		m[e.Key] = e.Value
	}
	return m
}

func notString(name string) error {
	return dberr.Syntaxf("Invalid value for property '%s'. It should be a string.", name)
}

// isTrue parses a boolean property. As in Cassandra, every unknown text means false.
func isTrue(text string) bool {
	switch strings.ToLower(text) {
	case "1", "true", "yes":
		return true
	}
	return false
}

// simple returns the text of a property, which must not be a map.
func (p *Property) simple() (string, error) {
	if p.IsMap {
		return "", notString(p.Name)
	}
	return p.Value, nil
}

func (p *Property) int32() (int32, error) {
	text, err := p.simple()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, dberr.Syntaxf("Invalid integer value %s for '%s'", text, p.Name)
	}
	return int32(n), nil
}

func (p *Property) float() (float64, error) {
	text, err := p.simple()
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, dberr.Syntaxf("Invalid double value %s for '%s'", text, p.Name)
	}
	return f, nil
}

// FormatDouble formats a double in the same way as Java, for example 0.01, 1.0, or 1.0E-5.
func FormatDouble(f float64) string {
	abs := f
	if abs < 0 {
		abs = -abs
	}
	if abs != 0 && (abs < 1e-3 || abs >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exponent)
		return mantissa + "E" + strconv.Itoa(n)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// FormatMap formats a map of texts as a CQL literal, sorted by key.
func FormatMap(m map[string]string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, k := range keysExcept(m) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(FormatString(k))
		b.WriteString(": ")
		b.WriteString(FormatString(m[k]))
	}
	b.WriteByte('}')
	return b.String()
}

// FormatString returns a string literal.
func FormatString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
