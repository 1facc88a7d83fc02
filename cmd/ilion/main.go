// SPDX-License-Identifier: Apache-2.0

// Command ilion contains the database and its tools. `ilion start` runs a node, and `ilion help` lists the other
// commands.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/alecthomas/kong"
	"github.com/ilion-db/ilion/internal/node/process"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// commands is the command tree.
type commands struct {
	Start startCommand `cmd:"" group:"run" help:"Start a database node"`
	Demo  demoCommand  `cmd:"" group:"run" help:"Start a local cluster with sample data"`

	Shell shellCommand `cmd:"" group:"query" help:"Open a CQL shell"`

	Status      statusCommand      `cmd:"" group:"inspect" help:"Show nodes and problems"`
	Top         topCommand         `cmd:"" group:"inspect" help:"Show live request-unit usage"`
	Table       tableCommand       `cmd:"" group:"inspect" help:"Show statistics for a table"`
	Ring        ringCommand        `cmd:"" group:"inspect" help:"Show the token ring and replica placement"`
	Endpoints   endpointsCommand   `cmd:"" group:"inspect" help:"Show the replicas and leader of a partition key"`
	SlowQueries slowQueriesCommand `cmd:"" group:"inspect" help:"Show the slowest requests"`
	Sessions    sessionsCommand    `cmd:"" group:"inspect" help:"List or cancel client connections"`
	Advise      adviseCommand      `cmd:"" group:"inspect" help:"Analyze table keys and suggest changes"`

	Node         nodeCommand         `cmd:"" group:"operate" help:"Drain, decommission, or resume a node"`
	Region       regionCommand       `cmd:"" group:"operate" help:"Add, list, and remove regions"`
	Partition    partitionCommand    `cmd:"" group:"operate" help:"List, split, merge, and move physical partitions"`
	Verify       verifyCommand       `cmd:"" group:"operate" help:"Check views and indexes and repair them"`
	Upgrade      upgradeCommand      `cmd:"" group:"operate" help:"Enable the features of the installed version (irreversible)"`
	Encryption   encryptionCommand   `cmd:"" group:"operate" help:"Create, show, and rotate the keys of encrypted data"`
	Cert         certCommand         `cmd:"" group:"operate" help:"Create and renew certificates for nodes"`
	Account      accountCommand      `cmd:"" group:"operate" help:"Show the keys of the REST API"`
	HashPassword hashPasswordCommand `cmd:"" group:"operate" name:"hash-password" help:"Hash a password for auth.users"`

	Backup  backupCommand  `cmd:"" group:"backup" help:"Create and manage backups"`
	Restore restoreCommand `cmd:"" group:"backup" help:"Restore tables from a backup into a running cluster"`
	Recover recoverCommand `cmd:"" group:"backup" help:"Recover a cluster that has lost a majority of its disks"`

	Load   loadCommand   `cmd:"" group:"move" help:"Load CSV or JSON lines into a table"`
	Unload unloadCommand `cmd:"" group:"move" help:"Export a table or query to CSV or JSON lines"`
	Import importCommand `cmd:"" group:"move" help:"Copy a live Cassandra or Ilion database"`

	Bench      benchCommand      `cmd:"" group:"develop" help:"Run a load test against a CQL server"`
	Completion completionCommand `cmd:"" group:"develop" help:"Print a shell completion script"`
	Man        manCommand        `cmd:"" group:"develop" help:"Print the manual page"`
	Version    versionCommand    `cmd:"" group:"develop" help:"Print the version"`
	Help       helpCommand       `cmd:"" group:"develop" help:"Show help for a command"`
}

// groups holds the headings of the help text in display order.
var groups = []kong.Group{
	{Key: "run", Title: "Run:"},
	{Key: "query", Title: "Query:"},
	{Key: "inspect", Title: "Inspect:"},
	{Key: "operate", Title: "Operate:"},
	{Key: "backup", Title: "Back up:"},
	{Key: "move", Title: "Move data:"},
	{Key: "develop", Title: "Develop:"},
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var cli commands
	exited := -1
	parser, err := kong.New(&cli,
		kong.Name("ilion"),
		kong.Description("Ilion is a distributed database that speaks CQL and the Cosmos DB REST API."),
		kong.ExplicitGroups(groups),
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
	ctx, err := parser.Parse(presentCommand(args, stderr))
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "ilion: %v (see ilion help)\n", err)
		return exitUsage
	}
	ctx.BindTo(stdout, (*io.Writer)(nil))
	if err := ctx.Run(); err != nil {
		fmt.Fprintf(stderr, "ilion: %s\n", lines(err.Error())) // the error may contain text from files and servers
		if usage := (*usageError)(nil); errors.As(err, &usage) {
			return exitUsage
		}
		return exitFailure
	}
	return 0
}

// usageError is a command-line error that is detected after parsing.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

type helpCommand struct{}

// Run prints the help text of the program.
func (helpCommand) Run(ctx *kong.Context) error {
	fresh, err := kong.Trace(ctx.Kong, nil)
	if err != nil {
		return err
	}
	return fresh.PrintUsage(false)
}

type versionCommand struct{}

// Run prints the version, the source commit, and the Go version.
func (versionCommand) Run(out io.Writer) error {
	_, err := fmt.Fprintf(out, "ilion %s (%s %s/%s)\n", process.Version(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	return err
}
