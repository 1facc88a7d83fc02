// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
)

type verifyCommand struct {
	View  verifyViewCommand  `cmd:"" help:"Compare a materialized view with its base table"`
	Index verifyIndexCommand `cmd:"" help:"Check that an index contains all rows of its table"`
}

// verifying is what both have.
type verifying struct {
	door
	Rate   int  `name:"rate" default:"10000" placeholder:"ROWS" help:"Maximum number of rows to check per second (default ${default})"`
	Repair bool `name:"repair" help:"Repair differences and check again"`
}

type verifyViewCommand struct {
	verifying
	Name string `arg:"" placeholder:"KEYSPACE.VIEW" help:"Materialized view"`
}

// Run compares a view with its table.
func (c *verifyViewCommand) Run(out io.Writer) error { return c.verify(out, "view", c.Name) }

type verifyIndexCommand struct {
	verifying
	Name string `arg:"" placeholder:"KEYSPACE.INDEX" help:"Index"`
}

// Run compares an index with its table.
func (c *verifyIndexCommand) Run(out io.Writer) error { return c.verify(out, "index", c.Name) }

const (
	// verifyPageRows is how many rows are looked at by one request.
	verifyPageRows = 1000
	// verifyShown is how many differences are shown; more are counted.
	verifyShown = 100
)

// verify goes from page to page.
func (c *verifying) verify(out io.Writer, kind, name string) error {
	if c.Rate < 1 {
		return &usageError{"--rate is a number of rows, 1 at least"}
	}
	var rows, back, busy, differ, repaired int
	for from, first := "", true; first || from != ""; first = false {
		began := time.Now()
		q := url.Values{"kind": {kind}, "name": {name}, "from": {from},
			"rows": {strconv.Itoa(min(c.Rate, verifyPageRows))}, "repair": {strconv.FormatBool(c.Repair)}}
		body, err := c.ask(http.MethodPost, "/verify?"+q.Encode())
		if err != nil {
			return err
		}
		var page admin.VerifyPage
		if err := json.Unmarshal(body, &page); err != nil {
			return fmt.Errorf("the node's answer cannot be read: %w", err)
		}
		for _, d := range page.Differences {
			switch differ++; {
			case differ == verifyShown+1:
				fmt.Fprintf(out, "more rows differ: they are counted, and not shown\n")
			case differ <= verifyShown:
				fmt.Fprintf(out, "%s: %s%s\n", d.Row, d.What, map[bool]string{true: "; repaired"}[d.Repaired])
			}
			if d.Repaired {
				repaired++
			}
		}
		busy += page.Busy
		if page.View {
			back += page.Rows
		} else {
			rows += page.Rows
		}
		from = page.Next
		if from != "" {
			time.Sleep(time.Duration(page.Rows)*time.Second/time.Duration(c.Rate) - time.Since(began))
		}
	}
	looked := fmt.Sprintf("%d rows of its table", rows)
	if kind == "view" {
		looked += fmt.Sprintf(" and %d of the view", back)
	}
	fmt.Fprintf(out, "%s %s: looked at %s: %d differ, %d repaired, %d changed while looked at\n", kind, name, looked, differ,
		repaired, busy)
	if differ == repaired {
		return nil
	}
	advice := "--repair makes that good"
	if c.Repair {
		advice = "they could not be repaired: try again"
	}
	return fmt.Errorf("%s %s differs from its table in %d rows: %s", kind, name, differ-repaired, advice)
}
