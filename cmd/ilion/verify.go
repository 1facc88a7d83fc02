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

	"github.com/ilion-db/ilion/internal/query/cql/view"
)

type verifyCommand struct {
	View  verifyViewCommand  `cmd:"" help:"Compare a materialized view with its base table"`
	Index verifyIndexCommand `cmd:"" help:"Check that an index contains all rows of its table"`
}

// verifyOptions holds the options that both verify commands share.
type verifyOptions struct {
	adminClient
	Rate   int  `name:"rate" default:"10000" placeholder:"ROWS" help:"Maximum number of rows to check per second (default ${default})"`
	Repair bool `name:"repair" help:"Repair differences and check again"`
}

type verifyViewCommand struct {
	verifyOptions
	Name string `arg:"" placeholder:"KEYSPACE.VIEW" help:"Materialized view"`
}

// Run compares a view with its table.
func (c *verifyViewCommand) Run(out io.Writer) error { return c.verify(out, "view", c.Name) }

type verifyIndexCommand struct {
	verifyOptions
	Name string `arg:"" placeholder:"KEYSPACE.INDEX" help:"Index"`
}

// Run compares an index with its table.
func (c *verifyIndexCommand) Run(out io.Writer) error { return c.verify(out, "index", c.Name) }

const (
	// verifyPageRows is the number of rows that one request checks.
	verifyPageRows = 1000
	// verifyShown is the maximum number of printed differences. All differences are counted.
	verifyShown = 100
)

// verify checks all rows page by page.
func (c *verifyOptions) verify(out io.Writer, kind, name string) error {
	if c.Rate < 1 {
		return &usageError{"invalid --rate: expected a number of at least 1"}
	}
	var rows, back, busy, differ, repaired int
	for from, first := "", true; first || from != ""; first = false {
		began := time.Now()
		q := url.Values{"kind": {kind}, "name": {name}, "from": {from},
			"rows": {strconv.Itoa(min(c.Rate, verifyPageRows))}, "repair": {strconv.FormatBool(c.Repair)}}
		body, err := c.request(http.MethodPost, "/verify?"+q.Encode())
		if err != nil {
			return err
		}
		var page view.VerifyResponse
		if err := json.Unmarshal(body, &page); err != nil {
			return fmt.Errorf("cannot decode the response of the node: %w", err)
		}
		for _, d := range page.Differences {
			switch differ++; {
			case differ == verifyShown+1:
				fmt.Fprintf(out, "more rows differ; only their number is reported\n")
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
	fmt.Fprintf(out, "%s %s: checked %s: %d differ, %d repaired, %d changed during the check\n", kind, name, looked, differ,
		repaired, busy)
	if differ == repaired {
		return nil
	}
	advice := "Use --repair to repair it"
	if c.Repair {
		advice = "Some rows could not be repaired. Retry later"
	}
	return fmt.Errorf("%s %s differs from its table in %d rows. %s", kind, name, differ-repaired, advice)
}
