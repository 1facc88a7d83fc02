// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/ilion-db/ilion/internal/server/admin"
)

type topCommand struct {
	door
	Table    string        `arg:"" optional:"" placeholder:"KEYSPACE.TABLE" help:"Table to show (default: all tables)"`
	Interval time.Duration `name:"interval" default:"2s" placeholder:"TIME" help:"Refresh interval, at least 200ms (default ${default})"`
	JSON     bool          `name:"json" help:"Print once as JSON"`
}

// topIntervalMin is the shortest pause between two looks: each asks all nodes.
const topIntervalMin = 200 * time.Millisecond

// Run shows what is spent at tables, physical partitions and keys, and by whom: live in a terminal, else once.
func (c *topCommand) Run(out io.Writer) error {
	if c.Interval < topIntervalMin {
		return &usageError{fmt.Sprintf("--interval %v is too short: use %v or more", c.Interval, topIntervalMin)}
	}
	spent, body, err := c.look()
	if err != nil {
		return err
	}
	if c.JSON {
		var indented bytes.Buffer
		if err := json.Indent(&indented, body, "", "  "); err != nil {
			return err
		}
		_, err = indented.WriteTo(out)
		return err
	}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) {
		return printTop(out, spent)
	}
	return c.live(file, spent)
}

// look asks what is spent now.
func (c *topCommand) look() (spent *admin.Usage, body []byte, err error) {
	body, err = c.ask(http.MethodGet, "/usage?table="+url.QueryEscape(c.Table))
	if err != nil {
		return nil, nil, err
	}
	spent = &admin.Usage{}
	if err := json.Unmarshal(body, spent); err != nil {
		return nil, nil, fmt.Errorf("%s is not the HTTP address of a node: its answer is no usage", c.HTTP)
	}
	if len(spent.Tables) == 0 && c.Table != "" {
		return nil, nil, fmt.Errorf("there is no table %s: give its keyspace, too, as in ks.table", c.Table)
	}
	return spent, body, nil
}

// The control sequences of a terminal (ECMA-48, and those of xterm that all others have).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	endOfLine   = "\x1b[K\r\n" // clears what was there before
	endOfScreen = "\x1b[J"
)

// looked is what a look has found.
type looked struct {
	spent *admin.Usage
	err   error
}

// live draws until it is told to end, and leaves the terminal as it was.
func (c *topCommand) live(screen *os.File, spent *admin.Usage) error {
	before, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return fmt.Errorf("the terminal cannot be used: %w", err)
	}
	defer func() { _ = term.Restore(int(os.Stdin.Fd()), before) }()
	if _, err := io.WriteString(screen, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(screen, leaveScreen) }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	keys, looks := make(chan byte), make(chan looked)
	go readKeys(ctx, os.Stdin, keys)
	go c.lookAgain(ctx, looks)
	var failed error
	for view := byTable; ; {
		if err := draw(screen, view, spent, failed); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case key := <-keys:
			next, quit := view.press(key)
			if quit {
				return nil
			}
			view = next
		case l := <-looks:
			if failed = l.err; failed == nil {
				spent = l.spent
			}
		}
	}
}

// lookAgain looks once an interval. A node that does not answer is asked again.
func (c *topCommand) lookAgain(ctx context.Context, to chan<- looked) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Interval):
		}
		spent, _, err := c.look()
		select {
		case <-ctx.Done():
			return
		case to <- looked{spent, err}:
		}
	}
}

// readKeys passes on what is typed. When nothing more can be read it is as if q was pressed.
func readKeys(ctx context.Context, from io.Reader, to chan<- byte) {
	key := make([]byte, 1)
	for {
		if _, err := from.Read(key); err != nil {
			key[0] = 'q'
		}
		select {
		case <-ctx.Done():
			return
		case to <- key[0]:
		}
		if key[0] == 'q' {
			return
		}
	}
}

// draw writes a view over the one that is there, in one piece and without clearing it first, so that nothing flickers.
func draw(screen *os.File, v topView, spent *admin.Usage, failed error) error {
	width, height, err := term.GetSize(int(screen.Fd()))
	if err != nil {
		return err
	}
	b := []byte(home)
	for _, line := range v.lines(spent, failed, width, height) {
		b = append(append(b, line...), endOfLine...)
	}
	_, err = screen.Write(append(b[:len(b)-len("\r\n")], endOfScreen...))
	return err
}
