// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/shell/display"
)

// errExit ends the shell normally.
var errExit = errors.New("exit")

// sourcesMax is the maximum nesting of SOURCE files.
const sourcesMax = 16

// command is a shell command. If run is nil, the server executes the command in the same way as a statement. However,
// the command ends with its line.
type command struct {
	usage, help string
	run         func(s *Shell, ctx context.Context, args []string) error
}

// newCommands returns the commands by their first words.
func newCommands() map[string]command {
	return map[string]command{
		"HELP": {"HELP [COMMAND]", "List the commands.", help},
		"?":    {"", "", help},
		"EXIT": {"EXIT", "Exit the shell (also Ctrl-D).", exit},
		"QUIT": {"", "", exit},
		"CONSISTENCY": {"CONSISTENCY [LEVEL]", "Show or set the consistency level of statements.",
			func(s *Shell, _ context.Context, args []string) error {
				return s.level(&s.consistency, "consistency", args)
			}},
		"SERIAL": {"SERIAL CONSISTENCY [LEVEL]", "Show or set the serial consistency level: SERIAL or LOCAL_SERIAL.",
			serial},
		"TRACING": {"TRACING [ON | OFF]", "Trace statements: show their steps, nodes, and durations.",
			func(s *Shell, _ context.Context, args []string) error { return s.toggle("Tracing", &s.tracing, args) }},
		"EXPAND": {"EXPAND [ON | OFF]", "Print one line per column.", expand},
		"PAGING": {"PAGING [ON | OFF | ROWS]", "Print results page by page.", paging},
		"SOURCE": {"SOURCE 'FILE'", "Execute the statements of a file until the first error.", source},
		"SHOW":   {"SHOW VERSION | HOST | SESSION ID", "Show the server or a trace.", show},
		"LOGIN": {"LOGIN USER ['PASSWORD']", "Log in as another user; prompts for the password if it is omitted.",
			login},
		"CLEAR": {"CLEAR", "Clear the terminal, like Ctrl-L.", clearScreen},
		"CLS":   {"", "", clearScreen},
		"COPY":  {"", "", refuseCopy},
		"DESCRIBE": {"DESCRIBE [KEYSPACES | TABLES | TABLE name | ...]",
			"Show the schema as statements (abbreviation: DESC).", nil},
		"DESC": {"", "", nil},
	}
}

func (s *Shell) isCommand(word string) bool { _, ok := s.commands[word]; return ok }

// commandWords returns the first words of commands for completion.
func (s *Shell) commandWords() (out []string) {
	for word := range s.commands {
		if word != "?" && word != "COPY" {
			out = append(out, word)
		}
	}
	return out
}

func help(s *Shell, _ context.Context, args []string) error {
	if len(args) > 0 {
		c, ok := s.commands[strings.ToUpper(args[0])]
		if !ok || c.usage == "" {
			return fmt.Errorf("unknown command %s. HELP lists the commands; see the CQL documentation for statements",
				args[0])
		}
		_, err := fmt.Fprintf(s.o.Out, "%s\n    %s\n", c.usage, c.help)
		return err
	}
	var lines []string
	for _, c := range s.commands {
		if c.usage != "" {
			lines = append(lines, fmt.Sprintf("  %-34s %s", c.usage, c.help))
		}
	}
	sort.Strings(lines)
	_, err := fmt.Fprintf(s.o.Out, `Commands, which end with their line:
%s
Anything else is a statement of CQL, which ends with a semicolon. EXPLAIN before one has its plan and its price.
Tab completes, Up and Ctrl-R find earlier lines, Ctrl-C cancels what is typed or runs, Ctrl-D leaves.
`, strings.Join(lines, "\n"))
	return err
}

func exit(*Shell, context.Context, []string) error { return errExit }

func refuseCopy(*Shell, context.Context, []string) error {
	return errors.New("COPY is not supported by this shell. Use ilion load and ilion unload, or COPY in cqlsh")
}

// level shows or sets a consistency level.
func (s *Shell) level(of *dberr.Consistency, name string, args []string) error {
	if len(args) == 0 {
		_, err := fmt.Fprintf(s.o.Out, "Current %s level is %s.\n", name, *of)
		return err
	}
	l, ok := dberr.ParseConsistency(args[0])
	if !ok || len(args) > 1 {
		return fmt.Errorf("unknown consistency level %s. Examples: ONE, LOCAL_QUORUM, QUORUM", strings.Join(args, " "))
	}
	*of = l
	_, err := fmt.Fprintf(s.o.Out, "%s level set to %s.\n", strings.ToUpper(name[:1])+name[1:], l)
	return err
}

func serial(s *Shell, _ context.Context, args []string) error {
	if len(args) == 0 || !strings.EqualFold(args[0], "CONSISTENCY") {
		return errors.New("usage: SERIAL CONSISTENCY [SERIAL | LOCAL_SERIAL]")
	}
	if len(args) == 2 {
		if l, ok := dberr.ParseConsistency(args[1]); !ok || !l.IsSerial() {
			return fmt.Errorf("unknown serial consistency level %s: use SERIAL or LOCAL_SERIAL", args[1])
		}
	}
	return s.level(&s.serial, "serial consistency", args[1:])
}

// toggle shows or sets a switch.
func (s *Shell) toggle(name string, of *bool, args []string) error {
	switch {
	case len(args) == 0:
		_, err := fmt.Fprintf(s.o.Out, "%s is %s.\n", name, map[bool]string{true: "on", false: "off"}[*of])
		return err
	case len(args) == 1 && strings.EqualFold(args[0], "ON"):
		*of = true
	case len(args) == 1 && strings.EqualFold(args[0], "OFF"):
		*of = false
	default:
		return fmt.Errorf("usage: %s ON or %s OFF", strings.ToUpper(name), strings.ToUpper(name))
	}
	_, err := fmt.Fprintf(s.o.Out, "%s is %s.\n", name, strings.ToLower(args[0]))
	return err
}

func expand(s *Shell, _ context.Context, args []string) error {
	if s.o.Format != display.Table && s.o.Format != display.Expanded {
		return fmt.Errorf("EXPAND does not apply to the format %s", s.o.Format)
	}
	on := s.o.Format == display.Expanded
	err := s.toggle("Expand", &on, args)
	s.o.Format = map[bool]display.Format{true: display.Expanded, false: display.Table}[on]
	return err
}

func paging(s *Shell, _ context.Context, args []string) error {
	if len(args) == 1 {
		if rows, err := strconv.ParseUint(args[0], 10, 31); err == nil && rows > 0 {
			s.paging = int(rows)
			_, err = fmt.Fprintf(s.o.Out, "Paging is on, with %d rows per page.\n", rows)
			return err
		}
	}
	on := s.paging > 0
	if err := s.toggle("Paging", &on, args); err != nil {
		return err
	}
	if on && s.paging == 0 {
		s.paging = pageRowsTerminal
	} else if !on {
		s.paging = 0
	}
	return nil
}

// unquoted returns the contents of a string. It returns any other word unchanged.
func unquoted(arg string) string {
	if len(arg) >= 2 && (arg[0] == '\'' || arg[0] == '"') && arg[len(arg)-1] == arg[0] {
		q := arg[:1]
		return strings.ReplaceAll(arg[1:len(arg)-1], q+q, q)
	}
	return arg
}

func source(s *Shell, ctx context.Context, args []string) error {
	if len(args) != 1 || args[0][0] != '\'' {
		return errors.New("usage: SOURCE 'FILE', for example SOURCE 'schema.cql'")
	}
	if s.sources >= sourcesMax {
		return fmt.Errorf("SOURCE files are nested more than %d levels deep", sourcesMax)
	}
	name := unquoted(args[0])
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(name, "~/") {
		name = home + name[1:]
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // the file was opened only for reading
	s.sources++
	defer func() { s.sources-- }()
	return s.source(ctx, f, name)
}

func show(s *Shell, ctx context.Context, args []string) error {
	what := ""
	if len(args) > 0 {
		what = strings.ToUpper(args[0])
	}
	switch {
	case what == "HOST" && len(args) == 1:
		_, err := fmt.Fprintf(s.o.Out, "Connected to %s.\n", s.o.Addr)
		return err
	case what == "VERSION" && len(args) == 1:
		text, err := s.server(ctx)
		if err == nil {
			_, err = fmt.Fprintln(s.o.Out, text)
		}
		return err
	case what == "SESSION" && len(args) > 1:
		return s.showSession(ctx, strings.Join(args[1:], ""))
	}
	return errors.New("usage: SHOW VERSION, SHOW HOST, or SHOW SESSION TRACE_ID")
}

// server returns the name and version of the server.
func (s *Shell) server(ctx context.Context) (string, error) {
	r, err := s.query(ctx, "SELECT cluster_name, release_version, cql_version FROM system.local")
	if err != nil {
		return "", err
	}
	rows := texts(r)
	if len(rows) != 1 {
		return "", fmt.Errorf("the server at %s does not report its version", s.o.Addr)
	}
	return fmt.Sprintf("cluster %s at %s, CQL %s of Cassandra %s", rows[0][0], s.o.Addr, rows[0][2], rows[0][1]), nil
}

func login(s *Shell, ctx context.Context, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("usage: LOGIN USER ['PASSWORD']")
	}
	before := s.o.Client
	s.o.Client.User = unquoted(args[0])
	switch {
	case len(args) == 2:
		s.o.Client.Password = unquoted(args[1])
	case s.editor == nil:
		s.o.Client = before
		return errors.New("cannot prompt for the password: specify it after the user name")
	default:
		password, err := s.editor.Secret("Password: ")
		if err != nil {
			s.o.Client = before
			return errors.New("no password was given")
		}
		s.o.Client.Password = password
	}
	old := s.conn
	if err := s.connect(ctx); err != nil {
		s.o.Client = before
		return err
	}
	s.schema.stale()
	if old != nil {
		_ = old.Close()
	}
	return nil
}

func clearScreen(s *Shell, _ context.Context, _ []string) error {
	if s.editor == nil {
		return nil
	}
	_, err := io.WriteString(s.o.Out, "\x1b[H\x1b[2J")
	return err
}

// isSecret reports whether a line may contain a password. Such a line must not be saved in the history.
func isSecret(line string) bool {
	words := wordsOf(strings.ToUpper(line))
	return slices.Contains(words, "PASSWORD") || slices.Contains(words, "LOGIN")
}
