// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/ilion-db/ilion/internal/control/advise"
)

type adviseCommand struct {
	adminClient
	Table string `arg:"" optional:"" placeholder:"KEYSPACE.TABLE" help:"Table to analyze (default: all user tables)"`
	JSON  bool   `name:"json" help:"Print the reports as JSON"`
}

// Run prints a report about the design of tables. The report is based on samples of rows from all nodes.
func (c *adviseCommand) Run(out io.Writer) error {
	body, err := c.request(http.MethodGet, "/advise?table="+url.QueryEscape(c.Table))
	if err != nil {
		return err
	}
	var reports []advise.Report
	if err := json.Unmarshal(body, &reports); err != nil {
		return fmt.Errorf("cannot read response from %s: not an Ilion node. Check --http", c.HTTP)
	}
	if c.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(reports)
	}
	if len(reports) == 0 {
		_, err := fmt.Fprintln(out, "There are no tables.")
		return err
	}
	for i := range reports {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if _, err := reports[i].WriteTo(out); err != nil {
			return err
		}
	}
	return nil
}
