// SPDX-License-Identifier: Apache-2.0

// Command ilion is the database and its tools in one binary: `ilion start` runs a node, `ilion bench` measures any CQL
// server.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/alecthomas/kong"

	"github.com/ilion-db/ilion/internal/node"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// commands is the command tree.
type commands struct {
	Start        startCommand        `cmd:"" help:"Run a database node."`
	Demo         demoCommand         `cmd:"" help:"Run a cluster of processes on this machine, with sample data, and say what to try."`
	Shell        shellCommand        `cmd:"" help:"Type statements of CQL and see what they answer."`
	Status       statusCommand       `cmd:"" help:"Show the nodes of a cluster, and what is wrong."`
	Node         nodeCommand         `cmd:"" help:"Take a node out of service or out of the cluster."`
	Table        tableCommand        `cmd:"" help:"Show one view of a table: sizes, tombstones, keys, latencies, indexes and views."`
	Ring         ringCommand         `cmd:"" help:"Show the ring of tokens that drivers see, beside what nodes really hold."`
	Endpoints    endpointsCommand    `cmd:"" help:"Say where a logical partition is, and who leads it."`
	Sessions     sessionsCommand     `cmd:"" help:"Show connections of clients, and end one."`
	Slow         slowCommand         `cmd:"" help:"Show requests that took long."`
	Partitions   partitionsCommand   `cmd:"" help:"Show the physical partitions of tables."`
	Partition    partitionCommand    `cmd:"" help:"Split, merge and move physical partitions by hand."`
	History      historyCommand      `cmd:"" help:"Show the splits, merges and moves of physical partitions that have ended."`
	Top          topCommand          `cmd:"" help:"Show live what is spent at tables, physical partitions and keys."`
	Advise       adviseCommand       `cmd:"" help:"Say what is wrong with the design of tables, and what else would come to."`
	Verify       verifyCommand       `cmd:"" help:"Compare views and indexes with their tables, and repair them."`
	Backup       backupCommand       `cmd:"" help:"Make, list and verify backups of a cluster."`
	Restore      restoreCommand      `cmd:"" help:"Restore a backup, or a keyspace or a table of it, into a running cluster."`
	Recover      recoverCommand      `cmd:"" help:"Make a cluster of what is left when a majority of disks is lost for ever."`
	Keys         keysCommand         `cmd:"" help:"Show the keys that clients of containers sign their requests with."`
	Upgrade      upgradeCommand      `cmd:"" help:"Let the cluster use what the build that all its nodes run brings: no way back."`
	Cert         certCommand         `cmd:"" help:"Make the certificates that nodes prove themselves to each other with."`
	Load         loadCommand         `cmd:"" help:"Load files of CSV or JSON lines into a table."`
	Unload       unloadCommand       `cmd:"" help:"Write a table, or what a query answers, to files of CSV or JSON lines."`
	Import       importCommand       `cmd:"" help:"Copy schema and rows of a live Cassandra, or another Ilion, and follow what changes."`
	Bench        benchCommand        `cmd:"" help:"Load a CQL server and measure it."`
	HashPassword hashPasswordCommand `cmd:"" name:"hash-password" help:"Read a password from stdin and print its hash for auth.users."`
	Completion   completionCommand   `cmd:"" help:"Print the script by which a shell completes commands and options."`
	Manual       manualCommand       `cmd:"" help:"Print the page of the manual (man)."`
	Version      versionCommand      `cmd:"" help:"Print the version."`
	Help         helpCommand         `cmd:"" help:"Print the help of a command, or this one."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var cli commands
	exited := -1
	parser, err := kong.New(&cli,
		kong.Name("ilion"),
		kong.Description("Ilion is a database that speaks Cassandra's CQL and manages its partitions by itself."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.UsageOnError(),
		kong.PostBuild(environmentVariables),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintf(stderr, "ilion: %v\n", err)
		return exitFailure
	}
	switch {
	case len(args) == 0:
		args = []string{"help"}
	case args[0] == "--version" || args[0] == "-v":
		args[0] = "version"
	case args[0] == "help" && len(args) > 1:
		args = append(args[1:len(args):len(args)], "--help")
	}
	ctx, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "ilion: %v (see ilion help)\n", err)
		return exitUsage
	}
	ctx.BindTo(stdout, (*io.Writer)(nil))
	if err := ctx.Run(); err != nil {
		fmt.Fprintf(stderr, "ilion: %s\n", lines(err.Error())) // it may quote names from files and servers
		if usage := (*usageError)(nil); errors.As(err, &usage) {
			return exitUsage
		}
		return exitFailure
	}
	return 0
}

// usageError is a mistake in the command line that only shows after it was parsed.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

type helpCommand struct{}

// Run prints the help of the whole program.
func (helpCommand) Run(ctx *kong.Context) error {
	fresh, err := kong.Trace(ctx.Kong, nil)
	if err != nil {
		return err
	}
	return fresh.PrintUsage(false)
}

type versionCommand struct{}

// Run prints the version, the commit it was built from and the Go version.
func (versionCommand) Run(out io.Writer) error {
	_, err := fmt.Fprintf(out, "ilion %s (%s %s/%s)\n", node.Software(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	return err
}
