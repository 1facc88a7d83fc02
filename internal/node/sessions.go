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

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/slowlog"
	"github.com/ilion-db/ilion/internal/server/cql"
)

const (
	// sessionsSubject and cancelSubject are what nodes ask each other about for connections of clients.
	sessionsSubject, cancelSubject = "sessions", "cancel session"
	// sessionsMost is how many sessions are told of where nobody says, and sessionsLimit the most that can be asked
	// for.
	sessionsMost, sessionsLimit = 1000, 5000
	// askedWait is how long a node is waited for that is asked about what is going on there.
	askedWait = 2 * time.Second
	// nameMax bounds what is shown of what a client calls itself, in bytes.
	nameMax = 128
)

// sessionsHere are the sessions of this node that have most to do; the question is how many.
func (n *Node) sessionsHere(_ context.Context, question []byte) (out catalog.Sessions, err error) {
	var most int
	if err := json.Unmarshal(question, &most); err != nil {
		return out, fmt.Errorf("malformed question: %w", err)
	}
	list, all := n.cql.Sessions(min(most, sessionsLimit))
	out.Connections = all
	now := time.Now()
	for i := range list {
		out.Sessions = append(out.Sessions, n.sessionShown(&list[i], now))
	}
	return out, nil
}

func (n *Node) sessionShown(i *cql.SessionInfo, now time.Time) catalog.Session {
	id := topology.NodeID(n.store.Identity().Node)
	s := catalog.Session{ID: sessionID(id.Short(), i.Number), Node: hex.EncodeToString(id[:]),
		Address: i.Remote.String(), State: "connecting", User: i.User, Driver: cutName(i.DriverName),
		DriverVersion: cutName(i.DriverVersion), Protocol: int(i.Version), Keyspace: i.Keyspace, TLS: i.Encrypted,
		ActiveRequests: i.UnderWay, Requests: i.Requests, Since: i.Since, Statement: i.Statement}
	if i.Ready {
		s.State = "ready"
	}
	if !i.Began.IsZero() {
		s.Millis = float64(max(now.Sub(i.Began), 0).Microseconds()) / 1000
	}
	return s
}

// cutName is what a client calls itself, which may be anything.
func cutName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), nameMax)], "")
}

// sessions are those of all nodes that have most to do, at most so many.
func (n *Node) sessions(ctx context.Context, most int) catalog.Sessions {
	most = min(max(most, 1), sessionsLimit)
	question := strconv.AppendInt(nil, int64(most), 10)
	answers, silent, err := askAll(ctx, n, sessionsSubject, question, askedWait, n.sessionsHere)
	out := catalog.Sessions{Sessions: []catalog.Session{}, Silent: silent}
	if err != nil {
		return out // the question is a number
	}
	for i := range answers {
		out.Connections += answers[i].Connections
		out.Sessions = append(out.Sessions, answers[i].Sessions...)
	}
	slices.SortStableFunc(out.Sessions, func(a, b catalog.Session) int {
		return cmp.Or(cmp.Compare(b.Millis, a.Millis), cmp.Compare(b.ActiveRequests, a.ActiveRequests),
			cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.ID, b.ID))
	})
	out.Sessions = out.Sessions[:min(len(out.Sessions), most)]
	return out
}

// sessionID names a connection in the whole cluster: its node, and its number there.
func sessionID(node string, number uint64) string { return node + "-" + strconv.FormatUint(number, 36) }

// cancelled says what became of an order to cancel a session: it was found, or not.
type cancelled struct {
	Found   bool   `json:"found"`
	Address string `json:"address"`
	User    string `json:"user"`
	Left    int    `json:"under_way"`
}

// cancelHere ends a session of this node; the question is its id. An id of another node is not found.
func (n *Node) cancelHere(ctx context.Context, question []byte) (out cancelled, err error) {
	node, number, ok := strings.Cut(string(question), "-")
	at, err := strconv.ParseUint(number, 36, 64)
	if !ok || err != nil || len(question) > nameMax {
		return out, errors.New("that is not the id of a session: see ilion sessions")
	}
	if node != topology.NodeID(n.store.Identity().Node).Short() {
		return out, nil
	}
	i, found := n.cql.Cancel(at)
	if !found {
		return out, nil
	}
	n.log.LogAttrs(ctx, slog.LevelWarn, "a client's connection was cancelled by an order",
		slog.String("session", string(question)), slog.String("client", i.Remote.String()), slog.String("role", i.User),
		slog.Int("requests_under_way", i.UnderWay), slog.String("statement", i.Statement))
	return cancelled{Found: true, Address: i.Remote.String(), User: i.User, Left: i.UnderWay}, nil
}

// cancelSession ends a session, wherever it is, and says so.
func (n *Node) cancelSession(ctx context.Context, id string) (string, error) {
	answers, silent, err := askAll(ctx, n, cancelSubject, []byte(id), askedWait, n.cancelHere)
	if err != nil {
		return "", err
	}
	for _, a := range answers {
		if a.Found {
			return fmt.Sprintf("The connection from %s is closed. %d of its requests were under way: reads end; writes "+
				"that were in a log already take effect.", a.Address, a.Left), nil
		}
	}
	if len(silent) > 0 {
		return "", fmt.Errorf("there is no such session, unless it is one of a node that does not answer: %s",
			strings.Join(silent, ", "))
	}
	return "", errors.New("there is no such session, or it has ended by itself")
}

const (
	slowSubject = "slow"
	// slowEvery is how often there is a line in the log about slow requests, if there were any.
	slowEvery = 5 * time.Second
)

// slowHere are the slow requests of this node.
func (n *Node) slowHere(context.Context, []byte) (slowlog.Report, error) {
	id := topology.NodeID(n.store.Identity().Node)
	return n.slow.Report(hex.EncodeToString(id[:])), nil
}

// slowQueries are those of all nodes.
func (n *Node) slowQueries(ctx context.Context) slowlog.Report {
	answers, silent, _ := askAll(ctx, n, slowSubject, nil, askedWait, n.slowHere) // slowHere does not fail
	out := slowlog.Merge(answers...)
	out.Unreachable = silent
	return out
}

// logSlow logs that there were slow requests, with the slowest of them, until ctx ends.
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
