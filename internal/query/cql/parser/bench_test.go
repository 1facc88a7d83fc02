// SPDX-License-Identifier: Apache-2.0

package parser_test

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// BenchmarkParse measures the CPU time and the allocations of Parse for typical statements.
func BenchmarkParse(b *testing.B) {
	cases := []struct{ name, text string }{
		{"insert", "INSERT INTO ks.users (id, name, email, age) VALUES (?, ?, ?, ?)"},
		{"insert_literals", "INSERT INTO ks.users (id, name, email, age) VALUES " +
			"(123e4567-e89b-12d3-a456-426614174000, 'Ada', 'ada@example.org', 36)"},
		{"select", "SELECT id, name, email FROM ks.users WHERE id = ? AND time > ? LIMIT 100"},
		{"select_all", "SELECT * FROM ks.users WHERE id = ?"},
		{"update", "UPDATE ks.users SET name = ?, tags = tags + ? WHERE id = ? IF age = ?"},
		{"batch_100", "BEGIN BATCH " + strings.Repeat("INSERT INTO ks.users (id, name) VALUES (?, ?); ", 100) +
			"APPLY BATCH"},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				if _, _, err := parser.Parse(c.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
