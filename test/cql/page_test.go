// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// block matches a block of CQL in a page.
var block = regexp.MustCompile("(?s)```cql\n(.*?)```")

// TestTransactionsPage checks that the examples of docs/transactions.md have the results that the page shows.
func TestTransactionsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/transactions.md")
	if err != nil {
		t.Fatal(err)
	}
	c, err := rawclient.Dial(t.Context(), startAlone(t, 1).CQLAddr().String(), rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cs := []*rawclient.Conn{c}
	for _, s := range []string{
		"CREATE KEYSPACE docs WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "USE docs",
	} {
		if _, err := c.Query(s); err != nil {
			t.Fatal(err)
		}
	}
	var answers []string
	for _, b := range block.FindAllStringSubmatch(string(page), -1) {
		// A transaction is a single statement, but all other statements have one line each.
		list := []string{strings.TrimSpace(b[1])}
		if !strings.HasPrefix(list[0], "BEGIN") {
			list = strings.Split(list[0], "\n")
		}
		for _, s := range list {
			answers = append(answers, strings.TrimSpace(answer(cs, s, 0)))
		}
	}
	got := strings.Join(append(answers, strings.TrimSpace(answer(cs, "SELECT * FROM accounts", 0))), "\n")
	want := `created table accounts
ok
ok
source.balance: 1000
all.balance: 1100, doubled: 2200
owner: 'ann', name: 'current', balance: 400
owner: 'ann', name: 'savings', balance: 700
owner: 'ann', name: 'total', balance: 1100`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
