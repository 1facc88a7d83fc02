// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
)

// Authority checks permissions on a node that requires authentication. It is safe for concurrent use.
//
// Each session caches the permissions of its role for the current state of the roles. While the state does not change,
// a check requires two lookups.
type Authority struct {
	datacenter string
	configured access.ConfiguredUsers
	// strict reports whether a change of a role's password or LOGIN option ends the role's sessions.
	strict  bool
	current atomic.Pointer[roleCache]
}

// roleCache holds one state of the roles and the subjects resolved in this state.
type roleCache struct {
	state    *access.State
	resolved sync.Map // name -> *access.Subject
}

// NewAuthority returns an authority for a node in the given data center. configured contains the users defined in the
// node's configuration. If strict is true, a change of a role's password or LOGIN option ends the role's sessions.
func NewAuthority(datacenter string, configured access.ConfiguredUsers, strict bool) *Authority {
	a := &Authority{datacenter: datacenter, configured: configured, strict: strict}
	a.Set(&access.State{})
	return a
}

// Set replaces the state of the roles. The next request of every session uses the new state.
func (a *Authority) Set(s *access.State) { a.current.Store(&roleCache{state: s}) }

// State returns the current state of the roles.
func (a *Authority) State() *access.State { return a.current.Load().state }

// Subject returns a role in the current state.
func (a *Authority) Subject(name string) *access.Subject { return a.subject(a.current.Load(), name) }

// Ended reports whether the sessions of a login must end. See access.Login.HasEnded.
func (a *Authority) Ended(l *access.Login) bool { return l.HasEnded(a.Subject(l.Role), a.strict) }

func (a *Authority) subject(e *roleCache, name string) *access.Subject {
	if s, ok := e.resolved.Load(name); ok {
		return s.(*access.Subject)
	}
	s, _ := e.resolved.LoadOrStore(name, e.state.Resolve(name, a.configured.Has(name)))
	return s.(*access.Subject)
}

// sessionAccess holds the permissions of a session in one state of the roles.
type sessionAccess struct {
	cache   *roleCache
	subject *access.Subject
	err     error // non-nil if the session must not execute any request
}

// identity holds the identity and the permissions of a session's client.
type identity struct {
	engine   *Engine
	client   Client
	claimant fairshare.Principal
	// account holds the permissions of an account key. For clients without an account key, account is nil.
	account *access.Subject
	// access holds the client's permissions in the most recently checked state of the roles.
	access atomic.Pointer[sessionAccess]
}

type requiredPermission struct {
	permission access.Permission
	on         access.Resource
}

// subject returns the role of the session or the permissions of its account key. If authentication is off, subject
// returns nil. It returns an error if the session must not execute requests.
func (i *identity) subject() (*access.Subject, error) {
	if i.account != nil {
		return i.account, nil
	}
	a := i.engine.opts.Authority
	if a == nil {
		return nil, nil
	}
	present := a.current.Load()
	have := i.access.Load()
	if have == nil || have.cache != present {
		have = &sessionAccess{cache: present, subject: a.subject(present, i.client.User)}
		if login := i.client.Login(); login.HasEnded(have.subject, a.strict) {
			have.subject = access.Ended(i.client.User)
		}
		if have.err = have.subject.Admit(a.datacenter, i.client.Remote.Addr()); i.client.User == "" {
			have.err = &dberr.Unauthorized{Message: "You have not logged in"}
		}
		i.access.Store(have)
	}
	return have.subject, have.err
}

// check returns an error if the client must not execute a statement. Schema changes and role changes check their
// permissions during execution.
func (i *identity) check(st *statement) error {
	who, err := i.subject()
	if err != nil {
		return err
	}
	if i.account != nil {
		if err := hiddenFromAccounts(st); err != nil {
			return err
		}
	}
	if who != nil && !who.Superuser {
		for _, r := range st.required {
			if err := who.Check(r.permission, r.on); err != nil {
				return err
			}
		}
		for j := range st.maskedUses {
			if err := i.checkMaskedUse(who, &st.maskedUses[j]); err != nil {
				return err
			}
		}
	}
	return st.locked
}

// actor returns the client in the representation of package ddl.
func (i *identity) actor() (ddl.Actor, error) {
	who, err := i.subject()
	if who == nil || err != nil {
		return ddl.Actor{}, err
	}
	if i.account != nil {
		return ddl.Actor{Subject: who}, nil // an object that the client creates would have no owner
	}
	return ddl.Actor{Role: who.Name, Subject: who}, nil
}

// hiddenFromAccounts rejects statements on system.peers_v2, which does not exist in Azure Cosmos DB. A driver that
// reads this table connects to the other nodes on the CQL port, which requires a role. If the table does not exist, the
// driver uses the configured port.
func hiddenFromAccounts(st *statement) error {
	for _, t := range st.tables {
		if t.Keyspace == "system" && t.Name == "peers_v2" {
			return dberr.Invalidf("table %s does not exist", t.Name)
		}
	}
	return nil
}

// requireSelect adds the permission for reading a table.
func (st *statement) requireSelect(t *schema.Table) {
	if !access.Readable(t.Keyspace, t.Name) {
		st.required = append(st.required, requiredPermission{access.Select, access.OfTable(t.Keyspace, t.Guarded())})
	}
}

// requireModify adds the permission for writing to a table. A conditional write also requires the permission for
// reading, because its result shows stored values.
func (st *statement) requireModify(t *schema.Table, conditional bool) {
	st.required = append(st.required, requiredPermission{access.Modify, access.OfTable(t.Keyspace, t.Name)})
	if conditional {
		st.requireSelect(t)
	}
	if st.locked == nil {
		st.locked = catalog.CheckWritable(t)
	}
}

// runRoles executes a statement about roles.
func (s *Session) runRoles(ctx context.Context, c *Call, st *statement) Status {
	who, err := s.subject()
	if err != nil {
		return c.Result.Fail(err)
	}
	if s.account != nil {
		return c.Result.Fail(dberr.Unauthorizedf("An account key cannot view or change roles. " +
			"Log in as a role at the CQL address"))
	}
	r := roles.Request{Statement: st.parsed, Text: st.text, Keyspace: st.keyspace, Subject: who,
		Schema: s.engine.catalog.Snapshot()}
	if who != nil {
		r.State = s.engine.opts.Authority.State()
	}
	rows, warnings, err := s.engine.roles.Execute(ctx, &r)
	c.Result.Warnings = append(c.Result.Warnings, warnings...)
	if err != nil || rows == nil {
		c.Result.Err = err
		return Done
	}
	columns := make([]Column, len(rows.Columns))
	for i, col := range rows.Columns {
		columns[i] = Column{Keyspace: "system_auth", Table: rows.Table, Name: col.Name, Type: col.Type}
	}
	c.Result.Kind, c.Result.Metadata, c.Result.RowCount = Rows, NewMetadata(columns), len(rows.Values)
	for _, row := range rows.Values {
		for _, v := range row {
			c.Result.Cells = cqltype.AppendValue(c.Result.Cells, v)
		}
	}
	return Done
}
