// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
)

type ringCommand struct {
	adminClient
	refreshOptions
	Tokens bool `name:"tokens" help:"Also list every token"`
}

// Run prints the token ring.
func (c *ringCommand) Run(out io.Writer) error {
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		nodes := []catalog.RingNode{}
		err := c.fetch(ctx, "/ring", &nodes)
		return nodes, func(out io.Writer) { printRing(out, nodes, c.Tokens) }, err
	})
}

func printRing(out io.Writer, nodes []catalog.RingNode, tokens bool) {
	w := newTable(out, "NODE", "STATE", "CQL", "REGION", "ZONE", "TOKENS", "SHARE", "REPLICAS", "LEADING", "DATA")
	for i := range nodes {
		n := &nodes[i]
		w.row(shortID(n.Node, "-"), n.State, n.Address, n.Region, n.Zone, len(n.Tokens),
			fmt.Sprintf("%.1f %%", 100*n.Share), n.Replicas, n.Leading, size(n.DiskBytes))
	}
	w.end()
	if !tokens {
		return
	}
	type storageURL struct {
		token int64
		node  *catalog.RingNode
	}
	var ring []storageURL
	for i := range nodes {
		for _, t := range nodes[i].Tokens {
			ring = append(ring, storageURL{t, &nodes[i]})
		}
	}
	slices.SortFunc(ring, func(a, b storageURL) int { return cmp.Compare(a.token, b.token) })
	fmt.Fprintln(out)
	w = newTable(out, "TOKEN", "NODE", "CQL", "ZONE")
	for _, p := range ring {
		w.row(p.token, shortID(p.node.Node, "-"), p.node.Address, p.node.Zone)
	}
	w.end()
}

type endpointsCommand struct {
	adminClient
	refreshOptions
	Keyspace string   `arg:"" help:"Keyspace"`
	Table    string   `arg:"" help:"Table or container"`
	Key      []string `arg:"" help:"Partition key values: CQL literals or plain text for a table, JSON or plain text for a container"`
}

// keyInPath is the maximum length in bytes of a query in a URL. A longer query is sent in the body of a POST request.
const keyInPath = 4 << 10

// Run prints the replicas of a logical partition.
func (c *endpointsCommand) Run(out io.Writer) error {
	q := url.Values{"keyspace": {c.Keyspace}, "table": {c.Table}, "key": c.Key}.Encode()
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		method, path, body := http.MethodGet, "/endpoints?"+q, []byte(nil)
		if len(q) > keyInPath {
			method, path, body = http.MethodPost, "/endpoints", []byte(q)
		}
		answer, err := c.requestWith(ctx, method, path, body)
		if err != nil {
			return nil, nil, err
		}
		e := new(catalog.Endpoints)
		if json.Unmarshal(answer, e) != nil {
			return nil, nil, c.notANode()
		}
		return e, func(out io.Writer) { printEndpoints(out, e) }, nil
	})
}

func printEndpoints(out io.Writer, e *catalog.Endpoints) {
	fmt.Fprintf(out, "Token %d is in physical partition %d of %s (tokens %d to %d).\n\n", e.Token, e.Partition,
		printable(e.Table), e.BeginToken, e.EndToken)
	w := newTable(out, "NODE", "CQL", "INTERNAL", "REGION", "ZONE", "REPLICA", "NODE IS")
	defer w.end()
	for i := range e.Replicas {
		r := &e.Replicas[i]
		state := r.State
		if r.Node == e.Leader {
			state = "leader"
		}
		w.row(shortID(r.Node, "-"), r.Address, r.Internal, r.Region, r.Zone, state,
			map[bool]string{true: "up", false: "down"}[r.Up])
	}
}

type sessionsCommand struct {
	List   sessionsListCommand   `cmd:"" default:"withargs" help:"List the busiest client connections (default)"`
	Cancel sessionsCancelCommand `cmd:"" help:"Close a client connection and cancel its requests"`
}

type sessionsListCommand struct {
	adminClient
	refreshOptions
	Limit int `name:"limit" default:"100" help:"Maximum number of connections to show, up to 5000 (default ${default})"`
}

// Run prints the client connections.
func (c *sessionsListCommand) Run(out io.Writer) error {
	if c.Limit < 1 {
		return &usageError{fmt.Sprintf("invalid --limit %d: expected 1 or more", c.Limit)}
	}
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		s := new(catalog.Sessions)
		err := c.fetch(ctx, fmt.Sprintf("/sessions?limit=%d", c.Limit), s)
		return s, func(out io.Writer) { printSessions(out, s, time.Now()) }, err
	})
}

func printSessions(out io.Writer, s *catalog.Sessions, now time.Time) {
	w := newTable(out, "ID", "CLIENT", "USER", "DRIVER", "PROTOCOL", "TLS", "KEYSPACE", "IN FLIGHT", "REQUESTS", "AGE",
		"LONGEST RUNNING STATEMENT")
	for i := range s.Sessions {
		c := &s.Sessions[i]
		doing := c.Statement
		if c.Millis > 0 {
			doing = fmt.Sprintf("%v: %s", millis(c.Millis), doing)
		}
		driver := strings.TrimSpace(c.Driver + " " + c.DriverVersion)
		if c.State != "ready" {
			driver = "(" + c.State + ")"
		}
		protocol := "REST"
		if c.Protocol > 0 {
			protocol = fmt.Sprintf("v%d", c.Protocol)
		}
		w.row(c.ID, c.Address, c.User, driver, protocol, map[bool]string{true: "yes"}[c.TLS],
			c.Keyspace, c.ActiveRequests, c.Requests, now.Sub(c.Since).Round(time.Second), doing)
	}
	w.end()
	fmt.Fprintf(out, "\n%d connections", s.Connections)
	if len(s.Sessions) < s.Connections {
		fmt.Fprintf(out, "; showing the %d busiest", len(s.Sessions))
	}
	fmt.Fprintln(out)
	printUnreachable(out, s.Silent)
}

// millis converts milliseconds to a rounded duration.
func millis(ms float64) time.Duration {
	d := time.Duration(ms * float64(time.Millisecond))
	if d < time.Second {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

type sessionsCancelCommand struct {
	adminClient
	ID string `arg:"" placeholder:"ID" help:"Connection ID from ilion sessions"`
}

// Run closes a connection.
func (c *sessionsCancelCommand) Run(out io.Writer) error {
	answer, err := c.request(http.MethodPost, "/sessions/cancel?id="+url.QueryEscape(c.ID))
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, lines(string(answer)))
	return err
}

type slowQueriesCommand struct {
	adminClient
	refreshOptions
	Statements bool `name:"statements" help:"Aggregate by statement"`
	Limit      int  `name:"limit" default:"20" help:"Maximum number of requests or statements to show (default ${default})"`
}

// Run prints the slowest requests.
func (c *slowQueriesCommand) Run(out io.Writer) error {
	if c.Limit < 1 {
		return &usageError{fmt.Sprintf("invalid --limit %d: expected 1 or more", c.Limit)}
	}
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		a := new(slowlog.Report)
		err := c.fetch(ctx, "/slow", a)
		return a, func(out io.Writer) { c.print(out, a) }, err
	})
}

func (c *slowQueriesCommand) print(out io.Writer, a *slowlog.Report) {
	switch {
	case a.ThresholdMillis == 0:
		fmt.Fprintln(out, "The slow-query log is disabled: slow_query_log_timeout is 0.")
	case len(a.Requests) == 0:
		fmt.Fprintf(out, "No request took %v or longer.\n", millis(a.ThresholdMillis))
	case c.Statements:
		w := newTable(out, "COUNT", "MIN", "MEAN", "MAX", "LAST", "TABLE", "STATEMENT")
		for i := range a.Statements[:min(len(a.Statements), c.Limit)] {
			s := &a.Statements[i]
			w.row(s.Count, millis(s.MinMillis), millis(s.MeanMillis), millis(s.MaxMillis), at(s.Last),
				nameOf(s.Keyspace, s.Table), s.Statement)
		}
		w.end()
	default:
		w := newTable(out, "ENDED", "TOOK", "NODE", "CLIENT", "USER", "LEVEL", "ROWS", "RU", "OUTCOME", "TABLE",
			"STATEMENT")
		for i := range a.Requests[:min(len(a.Requests), c.Limit)] {
			r := &a.Requests[i]
			rows := fmt.Sprint(r.Rows)
			if r.MorePages {
				rows += "+"
			}
			w.row(at(r.At), millis(r.Millis), shortID(r.Node, "-"), r.Client, r.User, r.Consistency, rows,
				fmt.Sprintf("%.1f", r.Units), r.Outcome, nameOf(r.Keyspace, r.Table), r.Statement)
		}
		w.end()
	}
	if a.Omitted > 0 {
		fmt.Fprintf(out, "\n%d of %d slow requests were not recorded because they arrived too fast.\n", a.Omitted, a.Slow)
	}
	printUnreachable(out, a.Unreachable)
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func nameOf(keyspace, table string) string {
	if table == "" {
		return keyspace
	}
	return keyspace + "." + table
}
