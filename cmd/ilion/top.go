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
	adminClient
	Table    string        `arg:"" optional:"" placeholder:"KEYSPACE.TABLE" help:"Table to show (default: all tables)"`
	Interval time.Duration `name:"interval" default:"2s" placeholder:"TIME" help:"Refresh interval, at least 200ms (default ${default})"`
	JSON     bool          `name:"json" help:"Print once as JSON"`
}

// topIntervalMin is the minimum refresh interval. The interval is limited because each refresh sends requests to all
// nodes.
const topIntervalMin = 200 * time.Millisecond

// Run shows the request-unit usage of tables, physical partitions, keys, and users. On a terminal, it updates the
// output continuously. Otherwise, it prints the usage once.
func (c *topCommand) Run(out io.Writer) error {
	if c.Interval < topIntervalMin {
		return &usageError{fmt.Sprintf("invalid --interval %v: expected at least %v", c.Interval, topIntervalMin)}
	}
	spent, body, err := c.refresh()
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

// refresh fetches the current usage.
func (c *topCommand) refresh() (spent *admin.Usage, body []byte, err error) {
	body, err = c.request(http.MethodGet, "/usage?table="+url.QueryEscape(c.Table))
	if err != nil {
		return nil, nil, err
	}
	spent = &admin.Usage{}
	if err := json.Unmarshal(body, spent); err != nil {
		return nil, nil, fmt.Errorf("cannot read response from %s: not an Ilion node. Check --http", c.HTTP)
	}
	if len(spent.Tables) == 0 && c.Table != "" {
		return nil, nil, fmt.Errorf("table %s does not exist. Use KEYSPACE.TABLE", c.Table)
	}
	return spent, body, nil
}

// These constants are terminal control sequences of ECMA-48 and xterm. All terminal emulators support the xterm
// sequences.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // selects the alternate screen and hides the cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	endOfLine   = "\x1b[K\r\n" // clears the rest of the line
	endOfScreen = "\x1b[J"
)

// looked is the result of a refresh.
type looked struct {
	spent *admin.Usage
	err   error
}

// live refreshes the screen until the user quits. Then it restores the terminal.
func (c *topCommand) live(screen *os.File, spent *admin.Usage) error {
	before, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return fmt.Errorf("cannot control the terminal: %w", err)
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

// lookAgain fetches the usage once per interval. After an error, it reports the error and continues.
func (c *topCommand) lookAgain(ctx context.Context, to chan<- looked) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Interval):
		}
		spent, _, err := c.refresh()
		select {
		case <-ctx.Done():
			return
		case to <- looked{spent, err}:
		}
	}
}

// readKeys forwards key presses. The end of the input is treated like the key q.
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

// draw overwrites the screen with a view. To avoid flicker, it uses a single write and does not clear the screen first.
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
