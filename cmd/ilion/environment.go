// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The environment variables of options for connections and credentials are specified in tags. These variables have the
// same meaning for every command. Every other option has a separate variable for each command. For example,
// ILION_START_DATA sets the option --data of ilion start.

// environmentVariables assigns a variable to every option without a tag.
func environmentVariables(k *kong.Kong) error {
	nameVariables(k.Model.Node, []string{"ILION"})
	return nil
}

// nameVariables assigns variables to the options of a command and its subcommands. The first prefix is the name of the
// command. The other prefixes are the deprecated names of the command, whose variables still work.
func nameVariables(n *kong.Node, prefixes []string) {
	for _, f := range n.Flags {
		for i, name := range f.Envs { // the options for the source of an import have the same tags as other options
			if rest, ok := strings.CutPrefix(name, "FROM_ILION_"); ok {
				f.Envs[i] = "ILION_FROM_" + rest
			}
		}
		if f.Name == "help" || len(f.Envs) > 0 {
			continue
		}
		for _, prefix := range prefixes {
			f.Envs = append(f.Envs, prefix+"_"+variable(f.Name))
		}
		f.Tag.Envs = f.Envs
	}
	for _, child := range n.Children {
		name := prefixes[0] + "_" + variable(child.Name)
		names := []string{name}
		for _, r := range renamed {
			if name == "ILION_"+variable(r.to) {
				names = append(names, "ILION_"+variable(r.from))
			}
		}
		nameVariables(child, names)
	}
}

func variable(name string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace(name))
}

// fromEnvironment describes an option that an environment variable sets.
type fromEnvironment struct{ option, variable, value string }

// optionsFromEnvironment returns the command's options that environment variables set.
func optionsFromEnvironment(ctx *kong.Context) (out []fromEnvironment) {
	var planOptions []*kong.Flag
	for _, p := range ctx.Path {
		if p.Flag != nil {
			planOptions = append(planOptions, p.Flag)
		}
	}
	for _, f := range ctx.Flags() {
		if slices.Contains(planOptions, f) {
			continue
		}
		for _, name := range f.Envs {
			if value, ok := os.LookupEnv(name); ok {
				out = append(out, fromEnvironment{f.Name, name, value})
				break
			}
		}
	}
	return out
}

// logEnvironment logs every option of the command that an environment variable sets.
func logEnvironment(ctx *kong.Context, log *slog.Logger) {
	for _, o := range optionsFromEnvironment(ctx) {
		log.LogAttrs(context.Background(), slog.LevelInfo, "option set by the environment",
			slog.String("variable", o.variable), slog.String("option", "--"+o.option), slog.String("value", o.value))
	}
}

// checkEnvironment rejects variables whose names contain an option but no command, such as ILION_LOG_LEVEL. Such a
// variable would have no effect. Variables that all commands share are accepted.
func checkEnvironment(ctx *kong.Context) error {
	for _, f := range ctx.Flags() {
		if len(f.Envs) == 0 || slices.Contains(sharedVariables, f.Envs[0]) {
			continue
		}
		short := "ILION_" + variable(f.Name)
		if _, ok := os.LookupEnv(short); ok && f.Envs[0] != short && !slices.Contains(sharedVariables, short) {
			return &usageError{fmt.Sprintf("invalid environment variable %s: use %[3]s to set --%[2]s", short, f.Name,
				f.Envs[0])}
		}
	}
	return nil
}

// sharedVariables lists the variables of options with tags.
var sharedVariables = []string{"ILION_HTTP", "ILION_DATA", "ILION_CQL", "ILION_USER", "ILION_PASSWORD", "ILION_TLS",
	"ILION_TLS_CA", "ILION_TLS_CERT", "ILION_TLS_KEY", "ILION_TLS_INSECURE", "ILION_BACKUP", "ILION_BACKUP_KEY_FILE",
	"ILION_S3_STYLE", "ILION_FROM_USER", "ILION_FROM_PASSWORD", "ILION_FROM_TLS", "ILION_FROM_TLS_CA",
	"ILION_FROM_TLS_CERT", "ILION_FROM_TLS_KEY", "ILION_FROM_TLS_INSECURE"}
