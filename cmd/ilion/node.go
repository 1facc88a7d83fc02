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

// nodeName is the argument that identifies a node.
type nodeName struct {
	Node string `arg:"" placeholder:"NODE" help:"Node ID from ilion status; a prefix of 4 or more digits is enough"`
}

// nodeOperation holds the options of drain and decommission.
type nodeOperation struct {
	adminClient
	nodeName
	Yes    bool `name:"yes" help:"Do not ask for confirmation"`
	NoWait bool `name:"no-wait" help:"Return immediately instead of waiting for completion"`
}

type nodeDrainCommand struct{ nodeOperation }

// Run drains a node.
func (c *nodeDrainCommand) Run(out io.Writer) error {
	return c.give(out, "drain",
		"Other nodes take over leadership until this node restarts.")
}

type nodeDecommissionCommand struct{ nodeOperation }

// Run decommissions a node. It first asks for confirmation, because a decommission is irreversible.
func (c *nodeDecommissionCommand) Run(out io.Writer) error {
	return c.give(out, "decommission",
		"The node will be removed from the cluster permanently.")
}

type nodeResumeCommand struct {
	adminClient
	nodeName
}

// Run cancels a drain or decommission.
func (c *nodeResumeCommand) Run(out io.Writer) error { return c.order(out, "resume", c.Node) }

// give asks for confirmation, starts the operation, and shows its progress.
func (c *nodeOperation) give(out io.Writer, what, question string) error {
	if !c.Yes {
		if !isTerminal(os.Stdin) {
			return &usageError{noTerminal}
		}
		s, err := c.status(context.Background())
		if err != nil {
			return err
		}
		if err := confirmNode(os.Stdin, out, s, c.Node, question); err != nil {
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

// pollInterval is the time between two requests for the progress of an operation.
const pollInterval = time.Second

// follow shows the progress of an operation until it completes. An interrupt ends the display but does not cancel the
// operation.
func (c *nodeOperation) follow(ctx context.Context, out io.Writer, what string) error {
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
			return fmt.Errorf("cannot show the progress: %w. The operation continues", err)
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(out, "The operation continues. Use ilion status to see its progress, or ilion node resume %s to cancel it.\n",
				c.Node)
			return nil
		case <-time.After(pollInterval):
		}
	}
}

// progress returns a one-line description of the remaining work of an operation. It also reports whether the operation
// is complete.
func progress(s *admin.Status, name, what string, left *timeLeft) (line string, done bool) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !strings.HasPrefix(n.ID, strings.ToLower(name)) {
			continue
		}
		id := n.ID[:min(8, len(n.ID))]
		switch {
		case n.State == "up":
			return fmt.Sprintf("node %s is up: the operation was canceled", id), true
		case what == "drain" && n.Leading == 0:
			return fmt.Sprintf("node %s leads no partitions and can be stopped", id), true
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

// timeLeft estimates the remaining time of an operation from the rate at which the number of remaining bytes decreases.
type timeLeft struct {
	began time.Time
	most  uint64
}

// after returns the estimated remaining time as text, or an empty string if an estimate is not possible.
func (t *timeLeft) after(bytes uint64, now time.Time) string {
	if bytes >= t.most {
		t.began, t.most = now, bytes
		return ""
	}
	rate := float64(t.most-bytes) / now.Sub(t.began).Seconds()
	d := time.Duration(float64(bytes) / rate * float64(time.Second))
	if d > 10*time.Second {
		d = d.Round(10 * time.Second) // prevents a new line every second
	}
	return fmt.Sprintf(", about %s left", d.Round(time.Second))
}

// confirmNode shows the node and asks for confirmation. If the user declines, it returns errDeclined.
func confirmNode(in io.Reader, out io.Writer, s *admin.Status, name, question string) error {
	var found []*admin.NodeStatus
	for i := range s.Nodes {
		if n := &s.Nodes[i]; strings.HasPrefix(n.ID, strings.ToLower(name)) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("%d nodes have an ID that starts with %s. Run ilion status to list the nodes", len(found), name)
	}
	n := found[0]
	fmt.Fprintf(out, "Node %s at %s is %s and has %s, %s.\n", n.ID[:min(8, len(n.ID))], n.CQL, n.State,
		plural(n.Replicas, "replica"), size(n.DiskBytes))
	return confirm(in, out, question)
}

// errDeclined means that the user has declined an operation. The command then exits with code 1, so that a script can
// detect the refusal.
var errDeclined = errors.New("canceled: nothing was changed")

// noTerminal is the message for a command that cannot ask for confirmation.
const noTerminal = "cannot ask for confirmation: standard input is not a terminal. Use --yes to confirm"

// confirm describes an operation and asks for confirmation. If the user declines, it returns errDeclined.
func confirm(in io.Reader, out io.Writer, what string) error {
	fmt.Fprint(out, what, " Continue? [y/N] ")
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

// isTerminal reports whether a file is a terminal. Other character devices, such as /dev/null, are not terminals.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// order starts an operation on a node. Any node of the cluster can forward the request.
func (d adminClient) order(out io.Writer, what, node string) error {
	body, err := d.request(http.MethodPost, "/node/"+what+"?node="+url.QueryEscape(node))
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}
