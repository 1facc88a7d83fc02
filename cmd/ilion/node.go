// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/ilion-db/ilion/internal/server/admin"
)

type nodeCommand struct {
	Drain        nodeDrainCommand        `cmd:"" help:"Move leadership away from a node"`
	Decommission nodeDecommissionCommand `cmd:"" help:"Remove a node from the cluster permanently"`
	Resume       nodeResumeCommand       `cmd:"" help:"Cancel a drain or decommission"`
}

// nodeName is an argument that says which node is meant.
type nodeName struct {
	Node string `arg:"" placeholder:"NODE" help:"Node ID from ilion status, or at least its first 4 digits"`
}

// nodeOrder is what an order asks, and shows when it was given.
type nodeOrder struct {
	door
	nodeName
	Yes    bool `name:"yes" help:"Do not ask for confirmation"`
	NoWait bool `name:"no-wait" help:"Return immediately instead of waiting for completion"`
}

type nodeDrainCommand struct{ nodeOrder }

// Run drains a node.
func (c *nodeDrainCommand) Run(out io.Writer) error {
	return c.give(out, "drain", "a drained node leads nothing",
		"All that it leads is led by others until it starts again.")
}

type nodeDecommissionCommand struct{ nodeOrder }

// Run decommissions a node, after a question: there is no way back.
func (c *nodeDecommissionCommand) Run(out io.Writer) error {
	return c.give(out, "decommission", "a decommissioned node cannot come back",
		"It is taken out of the cluster for good.")
}

type nodeResumeCommand struct {
	door
	nodeName
}

// Run cancels an order.
func (c *nodeResumeCommand) Run(out io.Writer) error { return c.order(out, "resume", c.Node) }

// give asks whether to go on, gives the order, and shows what becomes of it.
func (c *nodeOrder) give(out io.Writer, what, warning, question string) error {
	if !c.Yes {
		if !isTerminal(os.Stdin) {
			return &usageError{warning + ": say --yes where there is no terminal to ask at"}
		}
		s, err := c.status(context.Background())
		if err != nil {
			return err
		}
		if err := confirmed(os.Stdin, out, s, c.Node, question); err != nil {
			return err
		}
	}
	if err := c.order(out, what, c.Node); err != nil || c.NoWait {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.follow(ctx, out, what)
}

// followEvery is the pause between two looks at a node that has an order.
const followEvery = time.Second

// follow shows how an order goes on until it is carried out. Who interrupts it ends the showing alone.
func (c *nodeOrder) follow(ctx context.Context, out io.Writer, what string) error {
	said, misses := "", 0
	var left timeLeft
	for {
		s, err := c.status(context.Background())
		if misses++; err == nil {
			misses = 0
			now, done := progress(s, c.Node, what, &left)
			if now != said {
				fmt.Fprintln(out, now)
				said = now
			}
			if done {
				return nil
			}
		} else if misses == 3 {
			return fmt.Errorf("the order stands, and it cannot be seen what becomes of it: %w", err)
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(out, "The order stands: ilion status shows how it goes on, ilion node resume %s cancels it.\n",
				c.Node)
			return nil
		case <-time.After(followEvery):
		}
	}
}

// progress says in a line what a node has left of what it is to give away, and whether that is all.
func progress(s *admin.Status, name, what string, left *timeLeft) (line string, done bool) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !strings.HasPrefix(n.ID, strings.ToLower(name)) {
			continue
		}
		id := n.ID[:min(8, len(n.ID))]
		switch {
		case n.State == "up":
			return fmt.Sprintf("node %s is up: the order was cancelled", id), true
		case what == "drain" && n.Leading == 0:
			return fmt.Sprintf("node %s leads nothing and may be stopped", id), true
		case what == "drain":
			return fmt.Sprintf("node %s leads %d of its %d replicas", id, n.Leading, n.Replicas), false
		}
		line = fmt.Sprintf("node %s is %s and has %d replicas", id, n.State, n.Replicas)
		if n.HeldBytes > 0 {
			line += ", " + size(n.HeldBytes) + left.after(n.HeldBytes, time.Now())
		}
		return line, false
	}
	return fmt.Sprintf("node %s has left the cluster", name), true
}

// timeLeft tells from how fast bytes became fewer when there will be none.
type timeLeft struct {
	began time.Time
	most  uint64
}

// after says how long the rest will take, in words; nothing while that cannot be said.
func (t *timeLeft) after(bytes uint64, now time.Time) string {
	if bytes >= t.most {
		t.began, t.most = now, bytes
		return ""
	}
	rate := float64(t.most-bytes) / now.Sub(t.began).Seconds()
	d := time.Duration(float64(bytes) / rate * float64(time.Second))
	if d > 10*time.Second {
		d = d.Round(10 * time.Second) // so that a line is not said anew for each second
	}
	return fmt.Sprintf(", about %s left", d.Round(time.Second))
}

// confirmed shows the node that is meant, and asks whether to go on. The error is errDeclined if the answer is no.
func confirmed(in io.Reader, out io.Writer, s *admin.Status, name, question string) error {
	var found []*admin.NodeStatus
	for i := range s.Nodes {
		if n := &s.Nodes[i]; strings.HasPrefix(n.ID, strings.ToLower(name)) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("%d nodes have an identity that begins with %s: see ilion status", len(found), name)
	}
	n := found[0]
	fmt.Fprintf(out, "Node %s at %s is %s and has %s, %s.\n", n.ID[:min(8, len(n.ID))], n.CQL, n.State,
		counted(n.Replicas, "replica"), size(n.DiskBytes))
	return agreed(in, out, question)
}

// errDeclined says that the user answered no. It makes the command exit with 1, so that a script that goes on after the
// command does not take it for done.
var errDeclined = errors.New("nothing was done")

// agreed says what is about to happen, and asks whether to go on. The error is errDeclined if the answer is no.
func agreed(in io.Reader, out io.Writer, what string) error {
	fmt.Fprint(out, what, " Go on? [y/N] ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	if answer != "y" && answer != "yes" {
		return errDeclined
	}
	return nil
}

// isTerminal reports whether a file is a terminal. Other character devices, such as /dev/null, are not.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// order gives an order about a node, which whoever is asked passes on.
func (d door) order(out io.Writer, what, node string) error {
	body, err := d.ask(http.MethodPost, "/node/"+what+"?node="+url.QueryEscape(node))
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}
