// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/ilion-db/ilion/internal/node" // declares calls
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

var rewrite = flag.Bool("rewrite", false, "write the table of calls to docs/dev/calls.md")

// TestCalls checks that the table in docs/dev/calls.md contains all calls between nodes. With -rewrite, it updates the
// table.
func TestCalls(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, "| Call | Number | Request | Response | Since | Timeout | Request limit | Response limit "+
		"| Idempotent |\n|---|---|---|---|---|---|---|---|---|")
	for _, c := range rpc.Calls() {
		number, idempotent := "", "no"
		if c.Number != 0 {
			number = fmt.Sprint(c.Number)
		}
		if c.Idempotent {
			idempotent = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | `%s` | %d | %v | %s | %s | %s |\n", c.Name, number, c.Request,
			c.Response, c.Since, c.Timeout, size(c.RequestMax), size(c.ResponseMax), idempotent)
	}
	file := filepath.Join(root, "docs/dev/calls.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), "| Call | Number |")
	switch {
	case *rewrite:
		if at < 0 {
			at = len(text)
		}
		if err := os.WriteFile(file, []byte(string(text[:at])+b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	case at < 0 || string(text[at:]) != b.String():
		t.Errorf("the table in %s differs from the calls in the code: run this test with -rewrite", file)
	}
}

func size(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprint(bytes>>10, " KiB")
	}
	return fmt.Sprint(bytes>>20, " MiB")
}
