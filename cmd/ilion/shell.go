// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/internal/tool/shell"
	"github.com/ilion-db/ilion/internal/tool/shell/display"
)

type shellCommand struct {
	Addr        string        `arg:"" optional:"" env:"ILION_CQL" default:"127.0.0.1:9042" placeholder:"HOST:PORT" help:"CQL server"`
	Execute     string        `short:"e" placeholder:"STATEMENTS" help:"Execute the statements and exit"`
	File        string        `short:"f" placeholder:"FILE" help:"Execute the statements of a file and exit; - means standard input"`
	Format      string        `enum:"table,expanded,json,csv" default:"table" help:"Output format: ${enum} (default ${default})"`
	Keyspace    string        `short:"k" help:"Keyspace to use"`
	Consistency string        `default:"ONE" help:"Consistency level (default ${default})"`
	Timeout     time.Duration `default:"1m" help:"Request timeout (default ${default})"`
	NoHistory   bool          `help:"Do not save the command history"`
	credentials
	clientTLS
}

// Run starts an interactive shell on a terminal. Otherwise, it executes statements from the input until the end of the
// input or the first error.
func (c *shellCommand) Run(out io.Writer) error {
	o, err := c.options(out)
	if err != nil {
		return err
	}
	in, name, err := c.input()
	if err != nil {
		return err
	}
	interactive := in == nil
	if interactive && c.User != "" && c.Password == "" {
		fmt.Fprint(os.Stderr, "Password: ")
		password, err := term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(os.Stderr)
		if err != nil {
			return fmt.Errorf("cannot read the password: %w", err)
		}
		o.Client.Password = string(password)
	}
	ctx := context.Background()
	s, err := shell.New(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close() // no request is in flight
	if !interactive {
		return s.Run(ctx, in, name)
	}
	history := shell.HistoryFile()
	if c.NoHistory {
		history = ""
	}
	t := shell.NewTerminal(history, s.Complete)
	defer t.Close()
	restoreWhenEnded(t)
	return s.Interact(ctx, t)
}

// restoreWhenEnded restores the terminal when a signal ends the process.
func restoreWhenEnded(t *shell.Terminal) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-ended
		_ = t.Close()
		os.Exit(exitFailure)
	}()
}

// options returns the options of the shell.
func (c *shellCommand) options(out io.Writer) (o shell.Options, err error) {
	level, ok := dberr.ParseConsistency(c.Consistency)
	if !ok {
		return o, &usageError{fmt.Sprintf("unknown consistency level %q", c.Consistency)}
	}
	if c.Timeout <= 0 {
		return o, &usageError{fmt.Sprintf("invalid --timeout %v: expected a positive duration", c.Timeout)}
	}
	config, err := c.config()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return o, err
	}
	return shell.Options{Addr: withPort(c.Addr),
		Client: rawclient.Options{User: c.User, Password: c.Password, TLS: config, Timeout: c.Timeout,
			Name: "ilion-shell"},
		Keyspace: strings.Trim(c.Keyspace, `"`), Consistency: level, Format: display.Format(c.Format),
		Color: isColorful(out), Out: out, Err: os.Stderr}, nil
}

// input returns the input and the input's name for error messages. For an interactive shell, the input is nil.
func (c *shellCommand) input() (in io.Reader, name string, err error) {
	switch {
	case c.Execute != "" && c.File != "":
		return nil, "", &usageError{"-e and -f cannot be combined: specify one of them"}
	case c.Execute != "":
		return strings.NewReader(c.Execute), "", nil
	case c.File == "-" || c.File == "" && !term.IsTerminal(int(os.Stdin.Fd())):
		return os.Stdin, "stdin", nil
	case c.File != "":
		f, err := os.Open(c.File) // the file is closed when the process ends
		return f, c.File, err
	case !term.IsTerminal(int(os.Stdout.Fd())):
		return nil, "", errors.New("cannot start an interactive shell: standard output is not a terminal. Use -e or -f")
	}
	return nil, "", nil
}

// withPort adds the CQL port to an address without a port.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), "9042")
}

// isColorful reports whether the shell uses colors. It returns true for a terminal unless NO_COLOR is set (see
// no-color.org).
func isColorful(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
