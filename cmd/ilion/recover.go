// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ilion-db/ilion/internal/control/recovery"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

type recoverCommand struct {
	Local   recoverLocalCommand   `cmd:"" default:"withargs" help:"Inspect, plan, and apply on one machine"`
	Inspect recoverInspectCommand `cmd:"" help:"Export the state of a stopped node's data directory"`
	Plan    recoverPlanCommand    `cmd:"" help:"Create a recovery plan from exported states, and show the data loss"`
	Apply   recoverApplyCommand   `cmd:"" help:"Apply a recovery plan to a stopped node's data directory"`
}

// storedTables maps the IDs of stored internal tables to names.
var storedTables = map[uint32]string{
	catalog.TraceSessionsID: "system_traces.sessions", catalog.TraceEventsID: "system_traces.events",
	catalog.BatchesID: "system.batches",
}

// planOptions holds the options for the lost nodes and the plan file.
type planOptions struct {
	Lost []string `name:"lost" required:"" placeholder:"NODE" help:"Lost node: 4 or more digits of its ID. Repeat for each node."`
	Plan string   `name:"plan" default:"ilion-recovery.plan" placeholder:"FILE" help:"File for the plan (default ${default})"`
}

// make creates a plan, prints it, and writes it to a new file.
func (g *planOptions) make(out io.Writer, surveys []*recovery.NodeState) (*recovery.Plan, string, error) {
	if _, err := os.Lstat(g.Plan); !errors.Is(err, os.ErrNotExist) {
		return nil, "", fmt.Errorf("cannot write the plan: %s exists. Apply it with ilion recover apply, or delete it",
			g.Plan)
	}
	p, err := recovery.Make(surveys, g.Lost, storedTables, time.Now())
	if err != nil {
		return nil, "", err
	}
	p.Print(out)
	digest, err := recovery.WritePlan(g.Plan, p)
	if err == nil {
		fmt.Fprintf(out, "\nPlan %s was written to %s.\n", digest, g.Plan)
	}
	return p, digest, err
}

type recoverLocalCommand struct {
	planOptions
	storeKeyOptions
	Data []string `name:"data" required:"" placeholder:"DIR" help:"Data directory of a surviving node. Repeat for each node."`
	Yes  bool     `name:"yes" help:"Do not ask for confirmation"`
}

// Run recovers a cluster if all surviving data directories are on this machine.
func (c *recoverLocalCommand) Run(out io.Writer) error {
	if err := requireTerminal(c.Yes); err != nil {
		return err
	}
	key, err := c.source()
	if err != nil {
		return err
	}
	var surveys []*recovery.NodeState
	for _, dir := range c.Data {
		s, err := recovery.Inspect(dir, key, time.Now())
		if err != nil {
			return err
		}
		surveys = append(surveys, s)
	}
	p, digest, err := c.make(out, surveys)
	if err != nil {
		return err
	}
	if !c.Yes {
		if err := confirm(os.Stdin, out, "The recovery is irreversible."); err != nil {
			return errors.Join(err, os.Remove(c.Plan))
		}
	}
	for _, dir := range c.Data {
		if err := recovery.Apply(p, digest, dir, key, time.Now()); err != nil {
			return fmt.Errorf("%w. To resume, run ilion recover apply --plan %s for each directory", err, c.Plan)
		}
		fmt.Fprintf(out, "%s was recovered.\n", dir)
	}
	fmt.Fprintln(out, "Start the nodes as usual, and then add new nodes with --join.")
	return nil
}

type recoverInspectCommand struct {
	storeKeyOptions
	Data string `name:"data" required:"" placeholder:"DIR" help:"Data directory of the node"`
	File string `arg:"" placeholder:"FILE" help:"File for the exported state. Protect it: it contains password hashes."`
}

// Run exports the state of a data directory.
func (c *recoverInspectCommand) Run(out io.Writer) error {
	if _, err := os.Lstat(c.File); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot write %s: the file exists", c.File)
	}
	key, err := c.source()
	if err != nil {
		return err
	}
	s, err := recovery.Inspect(c.Data, key, time.Now())
	if err != nil {
		return err
	}
	s.Print(out)
	return recovery.WriteNodeState(c.File, s)
}

type recoverPlanCommand struct {
	planOptions
	Surveys []string `arg:"" placeholder:"SURVEY" help:"Exported states of all surviving nodes"`
}

// Run creates a plan.
func (c *recoverPlanCommand) Run(out io.Writer) error {
	var surveys []*recovery.NodeState
	for _, name := range c.Surveys {
		s, err := recovery.ReadNodeState(name)
		if err != nil {
			return err
		}
		surveys = append(surveys, s)
	}
	_, _, err := c.make(out, surveys)
	return err
}

type recoverApplyCommand struct {
	storeKeyOptions
	Plan string `name:"plan" required:"" placeholder:"FILE" help:"Recovery plan"`
	Data string `name:"data" required:"" placeholder:"DIR" help:"Data directory of the node"`
	Yes  bool   `name:"yes" help:"Do not ask for confirmation"`
}

// Run applies a plan to a data directory.
func (c *recoverApplyCommand) Run(out io.Writer) error {
	if err := requireTerminal(c.Yes); err != nil {
		return err
	}
	key, err := c.source()
	if err != nil {
		return err
	}
	p, digest, err := recovery.ReadPlan(c.Plan)
	if err != nil {
		return err
	}
	if !c.Yes {
		p.Print(out)
		if err := confirm(os.Stdin, out, "\nThe recovery is irreversible."); err != nil {
			return err
		}
	}
	switch err := recovery.Apply(p, digest, c.Data, key, time.Now()); {
	case errors.Is(err, recovery.ErrDone):
		fmt.Fprintf(out, "Plan %s has already been applied to %s.\n", digest, c.Data)
	case err != nil:
		return err
	default:
		fmt.Fprintf(out, "Plan %s was applied to %s. Start the node after the plan has been applied to all "+
			"directories.\n", digest, c.Data)
	}
	return nil
}

// requireTerminal returns an error if the command must ask for confirmation but standard input is not a terminal.
func requireTerminal(yes bool) error {
	if !yes && !isTerminal(os.Stdin) {
		return &usageError{noTerminal}
	}
	return nil
}
