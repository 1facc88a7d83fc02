// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/server/cql"
	"github.com/ilion-db/ilion/internal/server/rest"
)

const (
	// sessionsSubject and cancelSubject are the subjects of queries about client connections.
	sessionsSubject, cancelSubject = "sessions", "cancel session"
	// sessionsDefault is the default number of sessions in a response, and sessionsLimit the maximum.
	sessionsDefault, sessionsLimit = 1000, 5000
	// queryTimeout bounds the wait for another node.
	queryTimeout = 2 * time.Second
	// nameMax bounds the displayed name of a client in bytes.
	nameMax = 128
)

// localSessions returns the busiest CQL and REST sessions on this node. The question is their maximum number.
func (n *Node) localSessions(_ context.Context, question []byte) (out catalog.Sessions, err error) {
	var most int
	if err := json.Unmarshal(question, &most); err != nil {
		return out, fmt.Errorf("malformed request: %w", err)
	}
	most = min(most, sessionsLimit)
	list, all := n.cql.Sessions(most)
	out.Connections = all
	now := time.Now()
	for i := range list {
		out.Sessions = append(out.Sessions, n.sessionView(&list[i], now))
	}
	if n.rest == nil {
		return out, nil
	}
	overREST, all := n.rest.Sessions(most)
	out.Connections += all
	for i := range overREST {
		out.Sessions = append(out.Sessions, n.restSessionView(&overREST[i], now))
	}
	mostFirst(out.Sessions)
	out.Sessions = out.Sessions[:min(len(out.Sessions), max(most, 0))]
	return out, nil
}

// restSessionView describes a connection over REST, which has no protocol version and no keyspace.
func (n *Node) restSessionView(i *rest.SessionInfo, now time.Time) catalog.Session {
	id := topology.NodeID(n.store.Identity().Node)
	s := catalog.Session{ID: sessionID(id.Short(), restSession, i.Number), Node: hex.EncodeToString(id[:]),
		Address: i.Remote.String(), State: "connecting", User: i.Key, Driver: truncatedName(i.Agent), TLS: i.Encrypted,
		Requests: i.Requests, Since: i.Since, Statement: i.Request}
	if i.Key != "" {
		s.State = "ready"
	}
	if !i.Began.IsZero() {
		s.ActiveRequests = 1
		s.Millis = float64(max(now.Sub(i.Began), 0).Microseconds()) / 1000
	}
	return s
}

// mostFirst sorts sessions, the session with the oldest request first.
func mostFirst(list []catalog.Session) {
	slices.SortStableFunc(list, func(a, b catalog.Session) int {
		return cmp.Or(cmp.Compare(b.Millis, a.Millis), cmp.Compare(b.ActiveRequests, a.ActiveRequests),
			cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.ID, b.ID))
	})
}

func (n *Node) sessionView(i *cql.SessionInfo, now time.Time) catalog.Session {
	id := topology.NodeID(n.store.Identity().Node)
	s := catalog.Session{ID: sessionID(id.Short(), "", i.Number), Node: hex.EncodeToString(id[:]),
		Address: i.Remote.String(), State: "connecting", User: i.User, Driver: truncatedName(i.DriverName),
		DriverVersion: truncatedName(i.DriverVersion), Protocol: int(i.Version), Keyspace: i.Keyspace, TLS: i.Encrypted,
		ActiveRequests: i.UnderWay, Requests: i.Requests, Since: i.Since, Statement: i.Statement}
	if i.Ready {
		s.State = "ready"
	}
	if !i.Began.IsZero() {
		s.Millis = float64(max(now.Sub(i.Began), 0).Microseconds()) / 1000
	}
	return s
}

// truncatedName returns the name of a client, which may be arbitrary, for display.
func truncatedName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), nameMax)], "")
}

// sessions returns the busiest sessions on all nodes, up to a maximum number.
func (n *Node) sessions(ctx context.Context, most int) catalog.Sessions {
	most = min(max(most, 1), sessionsLimit)
	question := strconv.AppendInt(nil, int64(most), 10)
	answers, silent, err := clusterquery.All(ctx, n.queries, sessionsSubject, question, queryTimeout, n.localSessions)
	out := catalog.Sessions{Sessions: []catalog.Session{}, Silent: silent}
	if err != nil {
		return out // a number can always be encoded
	}
	for i := range answers {
		out.Connections += answers[i].Connections
		out.Sessions = append(out.Sessions, answers[i].Sessions...)
	}
	mostFirst(out.Sessions)
	out.Sessions = out.Sessions[:min(len(out.Sessions), most)]
	return out
}

// restSession marks the ID of a REST connection. The ID of a CQL connection has no mark.
const restSession = "rest-"

// sessionID identifies a connection in the whole cluster: its node, its protocol, and its number there.
func sessionID(node, surface string, number uint64) string {
	return node + "-" + surface + strconv.FormatUint(number, 36)
}

// cancelResult is the result of a request to cancel a session.
type cancelResult struct {
	Found   bool   `json:"found"`
	Address string `json:"address"`
	User    string `json:"user"`
	Left    int    `json:"under_way"`
}

// cancelLocalSession cancels a session on this node. The question is its ID. Sessions on other nodes are not found.
func (n *Node) cancelLocalSession(ctx context.Context, question []byte) (out cancelResult, err error) {
	node, number, ok := strings.Cut(string(question), "-")
	number, overREST := strings.CutPrefix(number, restSession)
	at, err := strconv.ParseUint(number, 36, 64)
	if !ok || err != nil || len(question) > nameMax {
		return out, errors.New("that is not the id of a session: see ilion sessions")
	}
	if node != topology.NodeID(n.store.Identity().Node).Short() {
		return out, nil
	}
	statement := ""
	switch {
	case overREST && n.rest != nil:
		var i rest.SessionInfo
		i, out.Found = n.rest.Cancel(at)
		out.Address, out.User, statement = i.Remote.String(), i.Key, i.Request
		if !i.Began.IsZero() {
			out.Left = 1
		}
	case !overREST:
		var i cql.SessionInfo
		i, out.Found = n.cql.Cancel(at)
		out.Address, out.User, out.Left, statement = i.Remote.String(), i.User, i.UnderWay, i.Statement
	}
	if !out.Found {
		return cancelResult{}, nil
	}
	n.log.LogAttrs(ctx, slog.LevelWarn, "client connection canceled by an operator",
		slog.String("session", string(question)), slog.String("client", out.Address), slog.String("role", out.User),
		slog.Int("requests_under_way", out.Left), slog.String("statement", statement))
	return out, nil
}

// cancelSession cancels a session on any node and describes the result.
func (n *Node) cancelSession(ctx context.Context, id string) (string, error) {
	answers, silent, err := clusterquery.All(ctx, n.queries, cancelSubject, []byte(id), queryTimeout,
		n.cancelLocalSession)
	if err != nil {
		return "", err
	}
	for _, a := range answers {
		if a.Found {
			return fmt.Sprintf("The connection from %s is closed. %d of its requests were in progress: reads end; writes "+
				"that are already in a log still take effect.", a.Address, a.Left), nil
		}
	}
	if len(silent) > 0 {
		return "", fmt.Errorf("there is no such session, unless it is one of a node that does not answer: %s",
			strings.Join(silent, ", "))
	}
	return "", errors.New("there is no such session, or it has ended")
}

const (
	slowSubject = "slow"
	// slowEvery is how often slow requests are logged, if there are any.
	slowEvery = 5 * time.Second
)

// localSlowQueries returns the slow requests on this node.
func (n *Node) localSlowQueries(context.Context, []byte) (slowlog.Report, error) {
	id := topology.NodeID(n.store.Identity().Node)
	return n.slow.Report(hex.EncodeToString(id[:])), nil
}

// slowQueries returns the slow requests on all nodes.
func (n *Node) slowQueries(ctx context.Context) slowlog.Report {
	answers, silent, _ := clusterquery.All(ctx, n.queries, slowSubject, nil, queryTimeout, n.localSlowQueries)
	out := slowlog.Merge(answers...)
	out.Unreachable = silent
	return out
}

// logSlow logs the number of slow requests and the slowest one, until ctx ends.
func (n *Node) logSlow(ctx context.Context) {
	tick := time.NewTicker(slowEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		count, r := n.slow.Summarize()
		if count == 0 {
			continue
		}
		n.log.LogAttrs(ctx, slog.LevelInfo, "requests were slow", slog.Uint64("requests", count),
			slog.Float64("slowest_ms", r.Millis), slog.String("statement", r.Statement),
			slog.String("keyspace", r.Keyspace), slog.String("table", r.Table), slog.String("role", r.User),
			slog.String("client", r.Client), slog.String("outcome", r.Outcome))
	}
}
