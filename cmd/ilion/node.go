// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/ilion-db/ilion/internal/server/admin"
)

type nodeCommand struct {
	Drain        nodeDrainCommand        `cmd:"" help:"Move all leaders away from a node, before it is stopped for a while. It ends when the node starts again."`
	Decommission nodeDecommissionCommand `cmd:"" help:"Move all replicas away from a node and take it out of the cluster for good."`
}

type nodeDrainCommand struct {
	door
	Node string `arg:"" placeholder:"NODE" help:"Identity of the node, or the beginning of it, as ilion status shows it: at least 4 digits."`
}

// Run drains a node.
func (c *nodeDrainCommand) Run(out io.Writer) error { return c.order(out, "drain", c.Node) }

type nodeDecommissionCommand struct {
	door
	Node string `arg:"" placeholder:"NODE" help:"Identity of the node, or the beginning of it, as ilion status shows it: at least 4 digits."`
	Yes  bool   `name:"yes" help:"Do not ask whether to go on."`
}

// Run decommissions a node, after a question: there is no way back.
func (c *nodeDecommissionCommand) Run(out io.Writer) error {
	if !c.Yes {
		if !isTerminal(os.Stdin) {
			return &usageError{"a decommissioned node cannot come back: say --yes where there is no terminal to ask at"}
		}
		s, err := c.status()
		if err != nil {
			return err
		}
		if ok, err := confirmed(os.Stdin, out, s, c.Node); err != nil || !ok {
			return err
		}
	}
	return c.order(out, "decommission", c.Node)
}

// confirmed asks whether the nodes that are meant, which should be one, are to be taken out for good.
func confirmed(in io.Reader, out io.Writer, s *admin.Status, name string) (bool, error) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; strings.HasPrefix(n.ID, strings.ToLower(name)) {
			fmt.Fprintf(
				out,
				"Node %s at %s is %s and has %d replicas, %s.\n",
				n.ID[:min(8, len(n.ID))],
				n.CQL,
				n.State,
				n.Replicas,
				size(n.DiskBytes),
			)
		}
	}
	return agreed(in, out, "It is taken out of the cluster for good.")
}

// agreed says what is about to happen, and asks whether to go on.
func agreed(in io.Reader, out io.Writer, what string) (bool, error) {
	fmt.Fprint(out, what, " Go on? [y/N] ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	if answer != "y" && answer != "yes" {
		fmt.Fprintln(out, "Nothing was done.")
		return false, nil
	}
	return true, nil
}

// isTerminal reports whether somebody sits at the other end of a file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// order gives an order about a node, which whoever is asked passes on.
func (d door) order(out io.Writer, what, node string) error {
	body, err := d.ask(http.MethodPost, "/node/"+what+"?node="+url.QueryEscape(node))
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}
