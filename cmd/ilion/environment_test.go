// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// tree returns the parser of all commands.
func tree(t *testing.T) (*kong.Kong, *commands) {
	t.Helper()
	cli := new(commands)
	k, err := kong.New(cli, kong.PostBuild(environmentVariables), kong.Writers(io.Discard, io.Discard),
		kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	return k, cli
}

// TestVariables checks that each environment variable sets one option of one command. Only options for connections and
// credentials with the same meaning may share variables.
func TestVariables(t *testing.T) {
	k, _ := tree(t)
	options := map[string][]string{}
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		for _, f := range n.Flags {
			for _, name := range f.Envs {
				options[name] = append(options[name], n.Path()+" --"+f.Name)
			}
		}
		for _, a := range n.Positional {
			for _, name := range a.Tag.Envs {
				options[name] = append(options[name], n.Path()+" "+a.Name)
			}
		}
		for _, child := range n.Children {
			visit(child)
		}
	}
	visit(k.Model.Node)
	for name, of := range options {
		shared := slices.Contains(sharedVariables, name) || strings.HasPrefix(name, "AWS_")
		if len(of) > 1 && !shared {
			t.Errorf("%s sets %q", name, of)
		}
		if shared && slices.ContainsFunc(of, func(o string) bool { return strings.HasPrefix(o, "ilion start ") }) {
			t.Errorf("%s of the tools sets %q", name, of)
		}
	}
	for _, name := range sharedVariables {
		if len(options[name]) == 0 {
			t.Errorf("%s sets nothing", name)
		}
	}
	if len(options) < 100 {
		t.Errorf("there are only %d variables", len(options))
	}
}

// TestStartEnvironment checks how ilion start handles environment variables. The command must ignore the variables of
// other commands, reject variables without an effect, and log each variable that sets an option.
func TestStartEnvironment(t *testing.T) {
	t.Setenv("ILION_DATA", "/of/another/node")
	t.Setenv("ILION_START_HTTP", "127.0.0.1:1234")
	t.Setenv("ILION_START_ZONE", "z1")
	k, cli := tree(t)
	ctx, err := k.Parse([]string{"start", "--zone", "z2"})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logEnvironment(ctx, slog.New(slog.NewTextHandler(&log, nil)))
	const line = "variable=ILION_START_HTTP option=--http value=127.0.0.1:1234"
	if text := log.String(); !strings.Contains(text, line) || strings.Count(text, "variable=") != 1 {
		t.Errorf("the log is %s", text)
	}
	if cli.Start.Data != nil || *cli.Start.HTTP != "127.0.0.1:1234" || *cli.Start.Zone != "z2" {
		t.Errorf("%+v", cli.Start)
	}
	if err := checkEnvironment(ctx); err != nil {
		t.Error(err)
	}
	t.Setenv("ILION_INTERNAL", "127.0.0.1:7000")
	if err := checkEnvironment(ctx); err == nil || !strings.Contains(err.Error(), "ILION_START_INTERNAL") {
		t.Errorf("a variable without effect: %v", err)
	}
}
