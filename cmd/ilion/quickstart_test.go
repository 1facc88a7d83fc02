// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/freeport"
)

// TestFirstHour checks that the commands and statements of README.md and docs/tutorial.md work. The script in
// testdata/hour runs the commands and statements. The script also starts a cluster with certificates and roles, kills a
// node, and replaces the node. The script must run every command of the pages. Each command that the script takes from
// the pages must exist in the pages.
func TestFirstHour(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs 127.0.0.2 and on")
	}
	h := &hour{commands: map[string]bool{}}
	for _, page := range []string{"../../README.md", "../../docs/tutorial.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		h.pages += string(text) + "\n"
	}
	h.read()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/hour", RequireExplicitExec: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"run": h.run, "node": h.node, "stands-for": h.standsFor, "all-run": h.whole,
			"statements": h.statements,
			"end":        h.end, "await": await, "address": address, "ports": ports, "cql": cql,
		},
	})
}

type hour struct {
	pages    string          // text of README.md and docs/tutorial.md
	commands map[string]bool // maps commands of the pages to whether the script has run the command
	mu       sync.Mutex      // guards running
	running  map[string]*exec.Cmd
}

var readmeBlock = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")

// read finds the commands in the pages.
func (h *hour) read() {
	h.running = map[string]*exec.Cmd{}
	for _, m := range readmeBlock.FindAllStringSubmatch(h.pages, -1) {
		for line := range strings.Lines(m[2]) {
			line = strings.TrimSpace(line)
			prompt, isPrompt := strings.CutPrefix(line, "$ ")
			if isPrompt {
				line = prompt
			}
			line, _, _ = strings.Cut(line, "  #")
			line = strings.TrimSpace(line)
			if line == "" || m[1] != "sh" && !(m[1] == "console" && isPrompt) {
				continue
			}
			for _, command := range strings.Split(line, " && ") {
				h.commands[command] = false
			}
		}
	}
}

// take marks a command of the pages as run. It returns the arguments without the name of the program.
func (h *hour) take(ts *testscript.TestScript, command string) []string {
	if _, ok := h.commands[command]; !ok {
		ts.Fatalf("README.md and docs/tutorial.md do not contain the command %s", command)
	}
	h.commands[command] = true
	for _, name := range []string{"go run ./cmd/ilion ", "./ilion ", "ilion "} {
		if rest, ok := strings.CutPrefix(command, name); ok {
			return strings.Fields(rest)
		}
	}
	return strings.Fields(command)
}

// adapt replaces words according to arguments of the form OLD=>NEW. It appends all other arguments.
func adapt(words, args []string) []string {
	for _, a := range args {
		was, is, ok := strings.Cut(a, "=>")
		if !ok {
			words = append(words, a)
			continue
		}
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], was, is)
		}
	}
	return words
}

// run implements the script command run COMMAND ARG... It runs a command of the pages and waits for the command to end.
func (h *hour) run(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Exec("ilion", adapt(h.take(ts, args[0]), args[1:])...); (err != nil) != neg {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

// standsFor marks a command that the script cannot run. The following lines of the script have the same effect as the
// command.
func (h *hour) standsFor(ts *testscript.TestScript, _ bool, args []string) { h.take(ts, args[0]) }

// whole fails if the pages contain a command that the script does not run.
func (h *hour) whole(ts *testscript.TestScript, _ bool, _ []string) {
	for command, done := range h.commands {
		if !done {
			ts.Fatalf("the script does not run a command of README.md or docs/tutorial.md: %s", command)
		}
	}
}

var (
	hourReady = regexp.MustCompile(`^Ilion is ready: CQL on ([0-9.:]+)(?:, HTTP on ([0-9.:]+))?, data in `)
	demoNode  = regexp.MustCompile(`^ +node (\d)   CQL ([0-9.:]+) +HTTP http://([0-9.:]+) +process (\d+)`)
)

// node implements the script command node NAME COMMAND ARG... It starts a command of the pages or this program as a
// background process and waits for the process to be ready. It sets the variables NAME_CQL and NAME_HTTP. For a demo,
// it also sets NAME_PID1 to NAME_PID4.
func (h *hour) node(ts *testscript.TestScript, _ bool, args []string) {
	name, words := args[0], []string{"start"}
	if args[1] != "start" {
		words = h.take(ts, args[1])
	}
	cmd := exec.Command("ilion", adapt(words, args[2:])...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "TMPDIR="+ts.MkAbs("."), "ILION_START_REST=off")
	var log bytes.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines := bufio.NewScanner(stdout)
	for ready := false; !ready; {
		if !lines.Scan() {
			_ = cmd.Wait()
			ts.Fatalf("%s does not start: %s", name, log.String())
		}
		if m := hourReady.FindStringSubmatch(lines.Text()); m != nil {
			ts.Setenv(name+"_CQL", m[1])
			ts.Setenv(name+"_HTTP", m[2])
			ready = true
		}
		if m := demoNode.FindStringSubmatch(lines.Text()); m != nil {
			if m[1] == "1" {
				ts.Setenv(name+"_CQL", m[2])
				ts.Setenv(name+"_HTTP", m[3])
			}
			ts.Setenv(name+"_PID"+m[1], m[4])
		}
		ready = ready || strings.HasPrefix(lines.Text(), "The cluster is ready.")
	}
	go func() {
		for lines.Scan() { // otherwise, the process would block while it writes output
		}
	}()
	h.mu.Lock()
	h.running[name] = cmd
	h.mu.Unlock()
	ts.Defer(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	})
}

// end implements the script command end NAME SIGNAL. It ends a process that node has started. If SIGNAL is missing, it
// waits for the process to end. Unless the process is killed, the exit code must be 0.
func (h *hour) end(ts *testscript.TestScript, _ bool, args []string) {
	h.mu.Lock()
	cmd := h.running[args[0]]
	h.mu.Unlock()
	if len(args) > 1 {
		ts.Check(cmd.Process.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt,
			"KILL": syscall.SIGKILL}[args[1]]))
	}
	err := cmd.Wait()
	if err != nil && (len(args) < 2 || args[1] != "KILL") {
		ts.Fatalf("%s ends with %v: %s", args[0], err, cmd.Stderr)
	}
}

// await implements the script command await PATTERN ARG... It runs this program repeatedly until the output matches the
// pattern.
func await(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	_, missing := eventually.Try(eventually.Limit, func() string {
		if err := ts.Exec("ilion", args[1:]...); err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return ""
		}
		return "it does not say " + args[0]
	})
	if missing != "" {
		ts.Fatalf("%s", missing)
	}
}

// address implements the script command address NAME. It sets a variable to a free address.
func address(ts *testscript.TestScript, _ bool, args []string) {
	free, err := freeport.Address()
	ts.Check(err)
	_, port, err := net.SplitHostPort(free)
	ts.Check(err)
	ts.Setenv(args[0], free)
	ts.Setenv(args[0]+"_PORT", port)
}

// ports implements the script command ports NAME. It sets a variable to the first of several free ports for a demo. The
// ports are below the range from which the system assigns ports to other processes.
func ports(ts *testscript.TestScript, _ bool, args []string) {
	free := func(d *demo) bool {
		for i := range 4 {
			for _, port := range []int{d.Port, d.httpPort(), d.restPort(), d.innerPort()} {
				l, err := net.Listen("tcp", d.addr(i, port))
				if err != nil {
					return false
				}
				ts.Check(l.Close())
			}
		}
		return true
	}
	for range 100 {
		d := &demo{demoCommand: demoCommand{Port: 15000 + rand.IntN(15000)}}
		if free(d) {
			ts.Setenv(args[0], fmt.Sprint(d.Port))
			return
		}
	}
	ts.Fatalf("no ports are free")
}

func dial(ts *testscript.TestScript, addr string) (*rawclient.Conn, error) {
	return rawclient.Dial(context.Background(), addr, rawclient.Options{User: ts.Getenv("ILION_USER"),
		Password: ts.Getenv("ILION_PASSWORD")})
}

// cql implements the script command cql ADDRESS STATEMENT. It executes a statement as the user ILION_USER.
func cql(ts *testscript.TestScript, neg bool, args []string) {
	c, err := dial(ts, args[0])
	if err == nil {
		defer c.Close()
		_, err = c.Query(args[1])
	}
	ts.Logf("%v", err)
	if (err != nil) != neg {
		ts.Fatalf("%s: %v", args[1], err)
	}
}

// statements implements the script command statements ADDRESS. It executes the statements of the pages and compares the
// rows with the tables in the pages.
func (h *hour) statements(ts *testscript.TestScript, _ bool, args []string) {
	c, err := dial(ts, args[0])
	ts.Check(err)
	defer c.Close()
	var rows [][]string
	count := 0
	for _, m := range readmeBlock.FindAllStringSubmatch(h.pages, -1) {
		switch {
		case m[1] == "sql":
			for _, text := range strings.Split(strings.NewReplacer("TRACING ON\n", "", "TRACING OFF\n",
				"").Replace(m[2]),
				";\n") {
				if text = strings.TrimSpace(text); text == "" {
					continue
				}
				r, err := c.Query(text)
				ts.Check(err)
				count++
				rows = nil
				cells := r.Cells
				for range r.RowCount {
					var row []string
					for i := range r.ColumnCount {
						n := int32(binary.BigEndian.Uint32(cells))
						cells = cells[4:]
						if n < 0 {
							row = append(row, "null")
							continue
						}
						row = append(row, shown(r.Columns[i].Type, cells[:n]))
						cells = cells[n:]
					}
					rows = append(rows, row)
				}
			}
		case m[1] == "" && (strings.Contains(m[2], "-+-") || strings.Contains(m[2], "----\n")):
			_, table, _ := strings.Cut(m[2], "--\n")
			for line := range strings.Lines(table) {
				if line == "\n" || strings.HasPrefix(line, "(") {
					continue // this line contains the number of rows
				}
				if len(rows) == 0 {
					ts.Fatalf("the page shows more rows than the statement returns: %s", line)
				}
				fields := strings.Split(line, "|")
				for i := range fields {
					fields[i] = strings.TrimSpace(fields[i])
				}
				if got := strings.Join(rows[0], "|"); got != strings.Join(fields, "|") {
					ts.Fatalf("the page shows %s, the statement returns %s", line, got)
				}
				rows = rows[1:]
			}
		}
	}
	if count < 10 {
		ts.Fatalf("only %d statements in the pages", count)
	}
}

// shown returns a value in the format of cqlsh.
func shown(t *cqltype.Type, wire []byte) string {
	if t.Kind == cqltype.Text {
		return string(wire)
	}
	text := strings.Trim(t.Format(wire), "'")
	if t.Kind == cqltype.Boolean {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}
