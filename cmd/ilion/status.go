// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
)

type statusCommand struct {
	adminClient
	refreshOptions
}

// Run prints the state of the cluster from the perspective of one node.
func (c *statusCommand) Run(out io.Writer) error {
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		// JSON output contains the response unchanged, because a newer node may return additional fields.
		var whole json.RawMessage
		if err := c.fetch(ctx, "/status", &whole); err != nil {
			return nil, nil, err
		}
		s, err := c.parse(whole)
		return whole, func(out io.Writer) { printStatus(out, s) }, err
	})
}

// status returns the state of the cluster from the perspective of the node.
func (d *adminClient) status(ctx context.Context) (*admin.Status, error) {
	s := new(admin.Status)
	return s, d.fetch(ctx, "/status", s)
}

func (d *adminClient) parse(body []byte) (*admin.Status, error) {
	s := new(admin.Status)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, d.notANode()
	}
	return s, nil
}

func printStatus(out io.Writer, s *admin.Status) {
	fmt.Fprintf(out, "Cluster %s, schema %s\n", s.Cluster, s.Schema)
	if s.Software != "" { // empty for earlier versions
		fmt.Fprintf(out, "Ilion %s, feature level %d\n", s.Software, s.Level)
	}
	if len(s.Nodes) == 0 {
		fmt.Fprintf(out, "Single node: CQL at %s, data in %s, %s\n", s.CQL, s.Data, size(s.DiskBytes))
	} else {
		printNodes(out, s)
	}
	partitions := 0
	for _, t := range s.Tables {
		partitions += len(t.Partitions)
	}
	fmt.Fprintf(out, "\n%s in %s\n", plural(len(s.Tables), "table"), plural(partitions, "physical partition"))
	printChanges(out, s.Changes)
	for _, note := range s.Notes {
		fmt.Fprintln(out, "Note: "+note)
	}
	if len(s.Problems) == 0 {
		fmt.Fprintln(out, "No problems were found.")
		return
	}
	fmt.Fprintln(out, "\nProblems:")
	for _, p := range s.Problems {
		fmt.Fprintln(out, "  "+p)
	}
}

func printNodes(out io.Writer, s *admin.Status) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tCQL\tREGION\tZONE\tREPLICAS\tLEADING\tDATA\tDISK FREE\tCLOCK\tUP\t")
	for _, n := range s.Nodes {
		free := "?"
		if n.DiskFree >= 0 {
			free = fmt.Sprintf("%d %%", n.DiskFree)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%+d ms\t%s\t\n", n.ID[:min(8, len(n.ID))], n.State, n.CQL,
			n.Region, n.Zone, n.Replicas, n.Leading,
			size(n.DiskBytes), free, n.ClockSkewMillis, (time.Duration(n.UpSeconds) * time.Second).String())
	}
	_ = w.Flush()
}

// size formats a number of bytes with a suitable unit.
func size(b uint64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if float64(b) >= u.of {
			return fmt.Sprintf("%.1f %s", float64(b)/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d B", b)
}
