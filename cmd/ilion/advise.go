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
	door
	Table string `arg:"" optional:"" placeholder:"KEYSPACE.TABLE" help:"Table to analyze (default: all user tables)"`
	JSON  bool   `name:"json" help:"Print the reports as JSON"`
}

// Run prints what is to be said about the design of tables, for which rows are sampled on all nodes.
func (c *adviseCommand) Run(out io.Writer) error {
	body, err := c.ask(http.MethodGet, "/advise?table="+url.QueryEscape(c.Table))
	if err != nil {
		return err
	}
	var reports []advise.Report
	if err := json.Unmarshal(body, &reports); err != nil {
		return fmt.Errorf("%s is not the HTTP address of a node: its answer is no advice", c.HTTP)
	}
	if c.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(reports)
	}
	if len(reports) == 0 {
		_, err := fmt.Fprintln(out, "There are no tables yet.")
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
