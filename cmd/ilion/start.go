// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/node/options"
)

// startCommand holds the options of `ilion start`. If a pointer is nil, the option is not set, and the value from the
// configuration file or the default applies.
type startCommand struct {
	Data           *string  `placeholder:"DIR" help:"Data directory (default ./ilion-data)"`
	CQL            *string  `name:"cql" placeholder:"HOST:PORT" help:"Address for CQL clients (default 127.0.0.1:9042)"`
	CosmosCQL      *string  `name:"cosmos-cql" placeholder:"HOST:PORT" help:"Address for CQL with account keys (default none)"`
	HTTP           *string  `name:"http" placeholder:"HOST:PORT" help:"Address for HTTP, or off (default 127.0.0.1:8080)"`
	REST           *string  `name:"rest" placeholder:"HOST:PORT" help:"Address for Cosmos DB SDKs, or off (default 127.0.0.1:8081)"`
	Commit         *string  `placeholder:"batch|periodic" help:"When to acknowledge a write: on disk (batch, default), or 10 ms before"`
	Internal       *string  `placeholder:"HOST:PORT" help:"Address for other nodes; required for a cluster"`
	Advertise      *string  `placeholder:"HOST:PORT" help:"Address that other nodes use (default: --internal)"`
	Bootstrap      bool     `help:"Create a cluster; with --join, only on the first node listed"`
	Join           []string `placeholder:"HOST:PORT,..." help:"Join the cluster of these nodes"`
	JoinSecretFile *string  `placeholder:"FILE" help:"File with the secret of a cluster without certificates"`
	KeyFile        *string  `name:"encryption-key-file" placeholder:"FILE" help:"File with the key that encrypts the data"`
	KeyCommand     *string  `name:"encryption-key-command" placeholder:"COMMAND" help:"Command that prints the key"`
	OldKeyFile     *string  `name:"encryption-old-key-file" placeholder:"FILE" help:"File with the previous key, to replace it"`
	Region         *string  `placeholder:"NAME" help:"Region of the node; clients see it as the data center (default datacenter1)"`
	Zone           *string  `placeholder:"NAME" help:"Zone of the node; clients see it as the rack (default rack1)"`
	Config         string   `placeholder:"FILE" help:"Configuration file (YAML); command-line options take precedence"`
	Insecure       bool     `help:"Allow non-loopback addresses without authentication and TLS"`
	LogFormat      string   `enum:"text,json" default:"text" help:"Log format: ${enum} (default ${default})"`
	LogLevel       string   `enum:"debug,info,warn,error" default:"info" help:"Minimum log level: ${enum} (default ${default})"`
}

// defaultREST is the default REST address. If this address is in use, a node starts without REST.
const defaultREST = "127.0.0.1:8081"

func (c *startCommand) options(log *slog.Logger) (options.Options, error) {
	o := options.Options{Data: "./ilion-data"}
	if c.Config != "" {
		if err := options.Load(c.Config, &o); err != nil {
			return o, err
		}
	}
	for _, s := range []struct {
		to   *string
		from *string
	}{{&o.Data, c.Data}, {&o.CQL, c.CQL}, {&o.CosmosCQL, c.CosmosCQL}, {&o.HTTP, c.HTTP},
		{&o.REST.Address, c.REST}, {&o.Commit, c.Commit},
		{&o.Cluster.Internal, c.Internal}, {&o.Cluster.Advertise, c.Advertise},
		{&o.Cluster.JoinSecretFile, c.JoinSecretFile},
		{&o.Storage.Encryption.KeyFile, c.KeyFile}, {&o.Storage.Encryption.KeyCommand, c.KeyCommand},
		{&o.Storage.Encryption.OldKeyFile, c.OldKeyFile},
		{&o.Region, c.Region}, {&o.Zone, c.Zone}} {
		if s.from != nil {
			*s.to = *s.from
		}
	}
	if o.REST.Address == "" {
		o.REST.Address, o.REST.Optional = defaultREST, true
	}
	if o.Data == "" {
		return o, &usageError{"invalid --data: the directory name is empty"}
	}
	if c.Bootstrap || len(c.Join) > 0 {
		o.Cluster.Bootstrap, o.Cluster.Join = c.Bootstrap, c.Join
	}
	o.Insecure = o.Insecure || c.Insecure
	o.Log = log
	return o, nil
}

// Run runs a node until SIGINT or SIGTERM. A second signal ends the process immediately. SIGHUP reloads the
// certificates.
func (c *startCommand) Run(out io.Writer, line *kong.Context) error {
	if err := checkEnvironment(line); err != nil {
		return err
	}
	log := newLogger(c.LogFormat, c.LogLevel)
	logEnvironment(line, log)
	o, err := c.options(log)
	if err != nil {
		return err
	}
	o.File = c.Config
	o.TuneRuntime()
	ownFiles()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, hangup...)
	defer signal.Stop(hangups)
	n, err := node.Start(ctx, o)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // the node stopped before it was ready
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, n.ReadyLine())
	for {
		select {
		case <-hangups:
			_ = n.Reload() // Reload logs errors
		case <-ctx.Done():
			stop()
			return n.Close()
		case <-n.Failed():
			err := n.Err()
			_ = n.Close() // the operator must see the failure instead of the error from Close
			if errors.Is(err, node.ErrLeft) {
				fmt.Fprintln(out, "Ilion stopped: "+err.Error())
				return nil
			}
			return err
		}
	}
}

func newLogger(format, level string) *slog.Logger {
	var l slog.Level
	// The enum contains only levels that slog supports.
	_ = l.UnmarshalText([]byte(level))
	opts := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}
