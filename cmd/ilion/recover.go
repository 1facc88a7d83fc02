// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ilion-db/ilion/internal/control/recovery"
	"github.com/ilion-db/ilion/internal/query/catalog"
)

type recoverCommand struct {
	Here   recoverHereCommand   `cmd:"" default:"withargs" help:"All in one, where all directories that are left are on this machine."`
	Survey recoverSurveyCommand `cmd:"" help:"Write what the directory of a stopped node has to a file; changes nothing."`
	Plan   recoverPlanCommand   `cmd:"" help:"Make a plan out of the surveys of all nodes that are left, and say what is lost."`
	Apply  recoverApplyCommand  `cmd:"" help:"Carry a plan out in the directory of a stopped node."`
}

// storedTables are those of Ilion itself that have rows.
var storedTables = map[uint32]string{
	catalog.TraceSessionsID: "system_traces.sessions", catalog.TraceEventsID: "system_traces.events",
	catalog.BatchesID: "system.batches",
}

// given are the members that are given up, and where the plan goes.
type given struct {
	Lost []string `name:"lost" required:"" placeholder:"NODE" help:"A member whose disk is lost: 4 or more digits of its identity."`
	Plan string   `name:"plan" default:"ilion-recovery.plan" placeholder:"FILE" help:"Where the plan is written."`
}

// make plans, shows the plan and writes it to a file that is not there yet.
func (g *given) make(out io.Writer, surveys []*recovery.NodeState) (*recovery.Plan, string, error) {
	if _, err := os.Lstat(g.Plan); !errors.Is(err, os.ErrNotExist) {
		return nil, "", fmt.Errorf("%s is there already: carry that plan out (ilion recover apply), or remove it if it was never begun",
			g.Plan)
	}
	p, err := recovery.Make(surveys, g.Lost, storedTables, time.Now())
	if err != nil {
		return nil, "", err
	}
	p.Print(out)
	digest, err := recovery.WritePlan(g.Plan, p)
	if err == nil {
		fmt.Fprintf(out, "\nPlan %s is in %s.\n", digest, g.Plan)
	}
	return p, digest, err
}

type recoverHereCommand struct {
	given
	Data []string `name:"data" required:"" placeholder:"DIR" help:"The directory of a node that is left. Once for each."`
	Yes  bool     `name:"yes" help:"Do not ask whether to go on."`
}

// Run recovers a cluster of whose directories all that are left are here.
func (c *recoverHereCommand) Run(out io.Writer) error {
	if err := mayAsk(c.Yes); err != nil {
		return err
	}
	var surveys []*recovery.NodeState
	for _, dir := range c.Data {
		s, err := recovery.Inspect(dir, time.Now())
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
		if err := agreed(os.Stdin, out, "There is no way back."); err != nil {
			return errors.Join(err, os.Remove(c.Plan))
		}
	}
	for _, dir := range c.Data {
		if err := recovery.Apply(p, digest, dir, time.Now()); err != nil {
			return fmt.Errorf("%w; go on with ilion recover apply --plan %s for each directory", err, c.Plan)
		}
		fmt.Fprintf(out, "%s is recovered.\n", dir)
	}
	fmt.Fprintln(out, "Start the nodes as always, and then new ones with --join.")
	return nil
}

type recoverSurveyCommand struct {
	Data string `name:"data" required:"" placeholder:"DIR" help:"The directory of the node."`
	File string `arg:"" placeholder:"FILE" help:"The survey. Keep it as you keep the directory: the cluster's roles are in it."`
}

// Run surveys a directory.
func (c *recoverSurveyCommand) Run(out io.Writer) error {
	if _, err := os.Lstat(c.File); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is there already", c.File)
	}
	s, err := recovery.Inspect(c.Data, time.Now())
	if err != nil {
		return err
	}
	s.Print(out)
	return recovery.WriteNodeState(c.File, s)
}

type recoverPlanCommand struct {
	given
	Surveys []string `arg:"" placeholder:"SURVEY" help:"The surveys of all nodes that are left."`
}

// Run makes a plan.
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
	Plan string `name:"plan" required:"" placeholder:"FILE" help:"The plan."`
	Data string `name:"data" required:"" placeholder:"DIR" help:"The directory of the node."`
	Yes  bool   `name:"yes" help:"Do not ask whether to go on."`
}

// Run carries a plan out in a directory.
func (c *recoverApplyCommand) Run(out io.Writer) error {
	if err := mayAsk(c.Yes); err != nil {
		return err
	}
	p, digest, err := recovery.ReadPlan(c.Plan)
	if err != nil {
		return err
	}
	if !c.Yes {
		p.Print(out)
		if err := agreed(os.Stdin, out, "\nThere is no way back."); err != nil {
			return err
		}
	}
	switch err := recovery.Apply(p, digest, c.Data, time.Now()); {
	case errors.Is(err, recovery.ErrDone):
		fmt.Fprintf(out, "Plan %s was carried out in %s before.\n", digest, c.Data)
	case err != nil:
		return err
	default:
		fmt.Fprintf(out, "Plan %s is carried out in %s. Start the node when it is in each directory of the plan.\n", digest, c.Data)
	}
	return nil
}

// mayAsk refuses to begin what would have to ask where nobody answers.
func mayAsk(yes bool) error {
	if !yes && !isTerminal(os.Stdin) {
		return &usageError{"a recovery gives nodes up for ever: say --yes where there is no terminal to ask at"}
	}
	return nil
}
