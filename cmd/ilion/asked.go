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

	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/slow"
)

type ringCommand struct {
	door
	watched
	Tokens bool `name:"tokens" help:"List every token, too."`
}

// Run prints the ring.
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
		w.row(shortOr(n.Node, "-"), n.State, n.Address, n.Region, n.Zone, len(n.Tokens),
			fmt.Sprintf("%.1f %%", 100*n.Share), n.Replicas, n.Leading, size(n.DiskBytes))
	}
	w.end()
	if !tokens {
		return
	}
	type place struct {
		token int64
		node  *catalog.RingNode
	}
	var ring []place
	for i := range nodes {
		for _, t := range nodes[i].Tokens {
			ring = append(ring, place{t, &nodes[i]})
		}
	}
	slices.SortFunc(ring, func(a, b place) int { return cmp.Compare(a.token, b.token) })
	fmt.Fprintln(out)
	w = newTable(out, "TOKEN", "NODE", "CQL", "ZONE")
	for _, p := range ring {
		w.row(p.token, shortOr(p.node.Node, "-"), p.node.Address, p.node.Zone)
	}
	w.end()
}

type endpointsCommand struct {
	door
	watched
	Keyspace string   `arg:"" help:"The keyspace."`
	Table    string   `arg:"" help:"The table, or the container."`
	Key      []string `arg:"" help:"The values of the partition key, as CQL literals or plain text; of a container as JSON or plain text."`
}

// keyInPath is how long a question may be that is asked in the path.
const keyInPath = 4 << 10

// Run prints where a logical partition is.
func (c *endpointsCommand) Run(out io.Writer) error {
	q := url.Values{"keyspace": {c.Keyspace}, "table": {c.Table}, "key": c.Key}.Encode()
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		method, path, body := http.MethodGet, "/endpoints?"+q, []byte(nil)
		if len(q) > keyInPath {
			method, path, body = http.MethodPost, "/endpoints", []byte(q)
		}
		answer, err := c.askWith(ctx, method, path, body)
		if err != nil {
			return nil, nil, err
		}
		e := new(catalog.Endpoints)
		if json.Unmarshal(answer, e) != nil {
			return nil, nil, c.notOfNode()
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
		w.row(shortOr(r.Node, "-"), r.Address, r.Internal, r.Region, r.Zone, state,
			map[bool]string{true: "up", false: "down"}[r.Up])
	}
}

type sessionsCommand struct {
	List   sessionsListCommand   `cmd:"" default:"withargs" help:"Show the connections of clients that have most to do."`
	Cancel sessionsCancelCommand `cmd:"" help:"Close the connection of a client, and end what it has under way."`
}

type sessionsListCommand struct {
	door
	watched
	Limit int `name:"limit" default:"100" help:"How many are shown, 5000 at most."`
}

// Run prints the connections of clients.
func (c *sessionsListCommand) Run(out io.Writer) error {
	if c.Limit < 1 {
		return &usageError{fmt.Sprintf("--limit %d: give 1 or more", c.Limit)}
	}
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		s := new(catalog.Sessions)
		err := c.fetch(ctx, fmt.Sprintf("/sessions?limit=%d", c.Limit), s)
		return s, func(out io.Writer) { printSessions(out, s, time.Now()) }, err
	})
}

func printSessions(out io.Writer, s *catalog.Sessions, now time.Time) {
	w := newTable(out, "ID", "CLIENT", "USER", "DRIVER", "PROTOCOL", "TLS", "KEYSPACE", "UNDER WAY", "REQUESTS", "FOR",
		"STATEMENT UNDER WAY LONGEST")
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
			c.Keyspace, c.UnderWay, c.Requests, now.Sub(c.Since).Round(time.Second), doing)
	}
	w.end()
	fmt.Fprintf(out, "\n%d connections", s.Connections)
	if len(s.Sessions) < s.Connections {
		fmt.Fprintf(out, ", of which the %d that have most to do are shown", len(s.Sessions))
	}
	fmt.Fprintln(out)
	silences(out, s.Silent)
}

// millis is a time in milliseconds in words.
func millis(ms float64) time.Duration {
	d := time.Duration(ms * float64(time.Millisecond))
	if d < time.Second {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

type sessionsCancelCommand struct {
	door
	ID string `arg:"" placeholder:"ID" help:"Id of the connection, as ilion sessions shows it."`
}

// Run ends a connection.
func (c *sessionsCancelCommand) Run(out io.Writer) error {
	answer, err := c.ask(http.MethodPost, "/sessions/cancel?id="+url.QueryEscape(c.ID))
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, lines(string(answer)))
	return err
}

type slowCommand struct {
	door
	watched
	Statements bool `name:"statements" help:"Sum up by statement."`
	Limit      int  `name:"limit" default:"20" help:"How many requests, or statements, are shown."`
}

// Run prints requests that took long.
func (c *slowCommand) Run(out io.Writer) error {
	if c.Limit < 1 {
		return &usageError{fmt.Sprintf("--limit %d: give 1 or more", c.Limit)}
	}
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		a := new(slow.Answer)
		err := c.fetch(ctx, "/slow", a)
		return a, func(out io.Writer) { c.print(out, a) }, err
	})
}

func (c *slowCommand) print(out io.Writer, a *slow.Answer) {
	switch {
	case a.AfterMillis == 0:
		fmt.Fprintln(out, "No slow requests are kept: slow_query_log_timeout is 0.")
	case len(a.Requests) == 0:
		fmt.Fprintf(out, "No request has taken %v or more.\n", millis(a.AfterMillis))
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
			if r.More {
				rows += " and more"
			}
			w.row(at(r.At), millis(r.Millis), shortOr(r.Node, "-"), r.Client, r.User, r.Consistency, rows,
				fmt.Sprintf("%.1f", r.Units), r.Outcome, nameOf(r.Keyspace, r.Table), r.Statement)
		}
		w.end()
	}
	if a.Omitted > 0 {
		fmt.Fprintf(out, "\n%d of %d slow requests came too fast to be looked at.\n", a.Omitted, a.Slow)
	}
	silences(out, a.Silent)
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func nameOf(keyspace, table string) string {
	if table == "" {
		return keyspace
	}
	return keyspace + "." + table
}
