// SPDX-License-Identifier: Apache-2.0

package diagnostics

import (
	"cmp"
	"context"
	"encoding/hex"
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
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/server/cql"
	"github.com/ilion-db/ilion/internal/server/rest"
)

const (
	// sessionsDefault is the default number of sessions in a response. sessionsLimit is the maximum number.
	sessionsDefault, sessionsLimit = 1000, 5000
	// nameMax is the maximum length of the displayed name of a client, in bytes.
	nameMax = 128
)

// One of these calls requests up to a given number of sessions from a node. The other call cancels the session with a
// given ID.
var (
	sessionsCall = rpc.Declare[int, catalog.Sessions](rpc.Spec{Name: "sessions", Since: 7, Timeout: queryTimeout,
		RequestMax: rpc.SmallBytes, Idempotent: true})
	cancelCall = rpc.Declare[rpc.Bytes, cancelResult](rpc.Spec{Name: "cancel session", Since: 7, Timeout: queryTimeout,
		RequestMax: rpc.SmallBytes, ResponseMax: rpc.SmallBytes, Idempotent: true})
)

// Sessions lists and cancels the client connections of all nodes.
type Sessions struct {
	self    topology.NodeID
	cql     *cql.Server
	rest    *rest.Server
	queries *clusterquery.Client
	log     *slog.Logger
}

// NewSessions returns the Sessions of a node. rest is nil if the node has no REST API.
func NewSessions(self topology.NodeID, c *cql.Server, rest *rest.Server, queries *clusterquery.Client,
	log *slog.Logger) *Sessions {
	return &Sessions{self, c, rest, queries, log}
}

func (s *Sessions) register(server *rpc.Server) {
	clusterquery.Handle(server, sessionsCall, s.local)
	clusterquery.Handle(server, cancelCall, s.cancelLocal)
}

// Clients returns the CQL connections to this node.
func (s *Sessions) Clients() []catalog.Client {
	var out []catalog.Client
	for _, c := range s.cql.Clients() {
		out = append(out, catalog.Client{
			Remote: c.Remote, User: c.User, Version: c.Version, DriverName: c.DriverName,
			DriverVersion: c.DriverVersion, Options: c.Options, Keyspace: c.Keyspace,
			Encrypted: c.Encrypted, Requests: c.Requests,
		})
	}
	return out
}

// local returns up to most of the busiest CQL and REST sessions on this node.
func (s *Sessions) local(_ context.Context, most int) (out catalog.Sessions, err error) {
	most = min(most, sessionsLimit)
	list, all := s.cql.Sessions(most)
	out.Connections = all
	now := time.Now()
	for i := range list {
		out.Sessions = append(out.Sessions, s.sessionView(&list[i], now))
	}
	if s.rest == nil {
		return out, nil
	}
	overREST, all := s.rest.Sessions(most)
	out.Connections += all
	for i := range overREST {
		out.Sessions = append(out.Sessions, s.restSessionView(&overREST[i], now))
	}
	mostFirst(out.Sessions)
	out.Sessions = out.Sessions[:min(len(out.Sessions), max(most, 0))]
	return out, nil
}

// restSessionView describes a REST connection, which has no protocol version and no keyspace.
func (s *Sessions) restSessionView(i *rest.SessionInfo, now time.Time) catalog.Session {
	out := catalog.Session{ID: sessionID(s.self.Short(), restSession, i.Number), Node: hex.EncodeToString(s.self[:]),
		Address: i.Remote.String(), State: "connecting", User: i.Key, Driver: truncatedName(i.Agent), TLS: i.Encrypted,
		Requests: i.Requests, Since: i.Since, Statement: i.Request}
	if i.Key != "" {
		out.State = "ready"
	}
	if !i.Began.IsZero() {
		out.ActiveRequests = 1
		out.Millis = float64(max(now.Sub(i.Began), 0).Microseconds()) / 1000
	}
	return out
}

// mostFirst sorts sessions. The session with the oldest request is first.
func mostFirst(list []catalog.Session) {
	slices.SortStableFunc(list, func(a, b catalog.Session) int {
		return cmp.Or(cmp.Compare(b.Millis, a.Millis), cmp.Compare(b.ActiveRequests, a.ActiveRequests),
			cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.ID, b.ID))
	})
}

func (s *Sessions) sessionView(i *cql.SessionInfo, now time.Time) catalog.Session {
	out := catalog.Session{ID: sessionID(s.self.Short(), "", i.Number), Node: hex.EncodeToString(s.self[:]),
		Address: i.Remote.String(), State: "connecting", User: i.User, Driver: truncatedName(i.DriverName),
		DriverVersion: truncatedName(i.DriverVersion), Protocol: int(i.Version), Keyspace: i.Keyspace, TLS: i.Encrypted,
		ActiveRequests: i.UnderWay, Requests: i.Requests, Since: i.Since, Statement: i.Statement}
	if i.Ready {
		out.State = "ready"
	}
	if !i.Began.IsZero() {
		out.Millis = float64(max(now.Sub(i.Began), 0).Microseconds()) / 1000
	}
	return out
}

// truncatedName returns the name of a client for display. The client may send any name.
func truncatedName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), nameMax)], "")
}

// BusiestSessions returns the busiest sessions on all nodes. It returns up to sessionsDefault sessions.
func (s *Sessions) BusiestSessions(ctx context.Context) catalog.Sessions {
	return s.ListSessions(ctx, sessionsDefault)
}

// ListSessions returns up to most of the busiest sessions on all nodes. If most is 0, the default applies.
func (s *Sessions) ListSessions(ctx context.Context, most int) catalog.Sessions {
	most = min(max(cmp.Or(most, sessionsDefault), 1), sessionsLimit)
	answers, silent, err := clusterquery.All(ctx, s.queries, sessionsCall, most, s.local)
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

// sessionID identifies a connection in the whole cluster. It consists of the node, the protocol, and the number of the
// connection on that node.
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

// cancelLocal cancels the session with the given ID on this node. It does not find sessions on other nodes.
func (s *Sessions) cancelLocal(ctx context.Context, id rpc.Bytes) (out cancelResult, err error) {
	node, number, ok := strings.Cut(string(id), "-")
	number, overREST := strings.CutPrefix(number, restSession)
	at, err := strconv.ParseUint(number, 36, 64)
	if !ok || err != nil || len(id) > nameMax {
		return out, errors.New("invalid session ID: to list the IDs, run \"ilion sessions\"")
	}
	if node != s.self.Short() {
		return out, nil
	}
	statement := ""
	switch {
	case overREST && s.rest != nil:
		var i rest.SessionInfo
		i, out.Found = s.rest.Cancel(at)
		out.Address, out.User, statement = i.Remote.String(), i.Key, i.Request
		if !i.Began.IsZero() {
			out.Left = 1
		}
	case !overREST:
		var i cql.SessionInfo
		i, out.Found = s.cql.Cancel(at)
		out.Address, out.User, out.Left, statement = i.Remote.String(), i.User, i.UnderWay, i.Statement
	}
	if !out.Found {
		return cancelResult{}, nil
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "client connection canceled by an operator",
		slog.String("session", string(id)), slog.String("client", out.Address), slog.String("role", out.User),
		slog.Int("requests_under_way", out.Left), slog.String("statement", statement))
	return out, nil
}

// CancelSession cancels a session on any node and describes the result.
func (s *Sessions) CancelSession(ctx context.Context, id string) (string, error) {
	answers, silent, err := clusterquery.All(ctx, s.queries, cancelCall, rpc.Bytes(id), s.cancelLocal)
	if err != nil {
		return "", err
	}
	for _, a := range answers {
		if a.Found {
			return fmt.Sprintf("The connection from %s is closed. %d of its requests were in progress. Reads are canceled; writes "+
				"that are already in a Raft log still take effect.", a.Address, a.Left), nil
		}
	}
	if len(silent) > 0 {
		return "", fmt.Errorf("the session does not exist, or it is on a node that does not respond: %s",
			strings.Join(silent, ", "))
	}
	return "", errors.New("the session does not exist or has ended")
}
