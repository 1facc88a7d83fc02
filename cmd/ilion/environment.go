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

// Options for connections and credentials have tags that name their variables, which mean the same to every command.
// All other options have a variable of their own for each command: ILION_START_DATA is --data of ilion start.

// environmentVariables gives every option without a tag its variable.
func environmentVariables(k *kong.Kong) error {
	nameVariables(k.Model.Node, "ILION")
	return nil
}

func nameVariables(n *kong.Node, prefix string) {
	for _, f := range n.Flags {
		for i, name := range f.Envs { // options of the source of an import share the tags of others
			if rest, ok := strings.CutPrefix(name, "FROM_ILION_"); ok {
				f.Envs[i] = "ILION_FROM_" + rest
			}
		}
		if f.Name == "help" || len(f.Envs) > 0 {
			continue
		}
		f.Envs = []string{prefix + "_" + variable(f.Name)}
		f.Tag.Envs = f.Envs
	}
	for _, child := range n.Children {
		nameVariables(child, prefix+"_"+variable(child.Name))
	}
}

func variable(name string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

// fromEnvironment is an option that a variable has set, and not the command line.
type fromEnvironment struct{ option, variable, value string }

// optionsFromEnvironment returns the options of the command that variables have set.
func optionsFromEnvironment(ctx *kong.Context) (out []fromEnvironment) {
	var given []*kong.Flag
	for _, p := range ctx.Path {
		if p.Flag != nil {
			given = append(given, p.Flag)
		}
	}
	for _, f := range ctx.Flags() {
		if slices.Contains(given, f) {
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

// logEnvironment logs every option of the command that a variable has set.
func logEnvironment(ctx *kong.Context, log *slog.Logger) {
	for _, o := range optionsFromEnvironment(ctx) {
		log.LogAttrs(context.Background(), slog.LevelInfo, "option set by the environment",
			slog.String("variable", o.variable), slog.String("option", "--"+o.option), slog.String("value", o.value))
	}
}

// checkEnvironment refuses a variable that begins with ILION_ and the name of an option of the command without the name
// of the command: it would have no effect. Variables of connections are not affected.
func checkEnvironment(ctx *kong.Context) error {
	for _, f := range ctx.Flags() {
		if len(f.Envs) != 1 {
			continue
		}
		short := "ILION_" + variable(f.Name)
		if _, ok := os.LookupEnv(short); ok && f.Envs[0] != short && !slices.Contains(sharedVariables, short) {
			return &usageError{fmt.Sprintf("%s has no effect: the variable of --%s is %s", short, f.Name, f.Envs[0])}
		}
	}
	return nil
}

// sharedVariables are those of options with tags.
var sharedVariables = []string{"ILION_HTTP", "ILION_DATA", "ILION_CQL", "ILION_USER", "ILION_PASSWORD", "ILION_TLS",
	"ILION_TLS_CA", "ILION_TLS_CERT", "ILION_TLS_KEY", "ILION_TLS_INSECURE", "ILION_BACKUP", "ILION_BACKUP_KEY_FILE",
	"ILION_S3_STYLE", "ILION_FROM_USER", "ILION_FROM_PASSWORD", "ILION_FROM_TLS", "ILION_FROM_TLS_CA",
	"ILION_FROM_TLS_CERT", "ILION_FROM_TLS_KEY", "ILION_FROM_TLS_INSECURE"}
