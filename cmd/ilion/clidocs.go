// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/alecthomas/kong"

	"github.com/ilion-db/ilion/internal/tool/clidocs"
)

// completionCommand holds the arguments of `ilion completion`.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}"`
}

// Run prints a completion script for the command: source <(ilion completion bash).
func (c completionCommand) Run(ctx *kong.Context, out io.Writer) error {
	return clidocs.Completion(out, ctx.Model.Node, c.Shell)
}

type manCommand struct{}

// Run prints the manual page for the command: ilion man | man -l -.
func (manCommand) Run(ctx *kong.Context, out io.Writer) error {
	return clidocs.Manual(out, ctx.Model.Node)
}
