// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/bench"
)

type benchCommand struct {
	Workload     string        `arg:"" enum:"read,write,mixed,scan,update,condition,lookup,indexed,viewed" help:"One of ${enum}"`
	Addr         string        `env:"ILION_CQL" default:"127.0.0.1:9042" placeholder:"HOST:PORT" help:"CQL server to test"`
	Connections  int           `default:"16" help:"Number of connections (default ${default})"`
	Inflight     int           `default:"16" help:"Number of concurrent requests per connection (default ${default})"`
	Rate         int           `default:"0" help:"Open-loop requests per second; 0 means a closed loop (default ${default})"`
	RowSize      int           `default:"1000" help:"Row size in bytes, divided among five columns (default ${default})"`
	Zeros        int           `default:"0" help:"Percentage of each column filled with zeros, for compressible rows (default ${default})"`
	Keys         int           `default:"100000" help:"Number of rows; for scan, of partitions with 1,000 rows (default ${default})"`
	Distribution string        `enum:"uniform,zipf,hot" default:"uniform" help:"Key distribution: ${enum} (default ${default})"`
	Duration     time.Duration `default:"10s" help:"Length of the measurement (default ${default})"`
	Warmup       time.Duration `default:"2s" help:"Warm-up time before the measurement (default ${default})"`
	Consistency  string        `default:"LOCAL_ONE" help:"Consistency level (default ${default})"`
	ServerPIDs   []int         `name:"server-pid" placeholder:"PID,..." help:"Local server processes whose CPU time is measured"`
	SkipLoad     bool          `help:"Use the rows of an earlier run instead of loading new ones"`
	Verify       bool          `help:"Compare every row that is read with the row that was written, and fail if they differ"`
	JSON         bool          `name:"json" help:"Print the result as a JSON object"`
	credentials
	clientTLS
}

// Help describes the workloads.
func (*benchCommand) Help() string {
	return `Workloads:
  read, write   single rows
  mixed         half reads, half writes
  scan          partitions of 1,000 rows
  update        one of five columns
  condition     one of five columns, with IF EXISTS
  lookup        ten rows by a storage-attached index
  indexed       writes to a table with a storage-attached index
  viewed        writes to a table with a materialized view`
}

// Run runs the load test and prints the report.
func (c *benchCommand) Run(out io.Writer) error {
	level, ok := dberr.ParseConsistency(c.Consistency)
	if !ok {
		return &usageError{fmt.Sprintf("unknown consistency level %q", c.Consistency)}
	}
	config, err := c.config()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rep, err := bench.Run(ctx, bench.Options{
		Workload: c.Workload, Addr: c.Addr, User: c.User, Password: c.Password, TLS: config, Connections: c.Connections,
		InFlight: c.Inflight, Rate: c.Rate, RowSize: c.RowSize, Zeros: c.Zeros, Keys: c.Keys,
		Distribution: c.Distribution, Warmup: c.Warmup, Duration: c.Duration,
		Consistency: level, ServerPIDs: c.ServerPIDs, SkipLoad: c.SkipLoad, Verify: c.Verify,
		Progress: os.Stderr,
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "The rows are kept for --skip-load. Use DROP KEYSPACE "+bench.Keyspace+" to delete them.")
	if c.JSON {
		err = json.NewEncoder(out).Encode(rep)
	} else {
		_, err = io.WriteString(out, rep.Text())
	}
	if err == nil && rep.Wrong > 0 {
		err = fmt.Errorf("%d responses were wrong; the first: %s", rep.Wrong, rep.FirstWrong)
	}
	return err
}
