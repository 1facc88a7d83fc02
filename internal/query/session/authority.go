// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/ddl"
	"github.com/ilion-db/ilion/internal/query/roles"
)

// Authority says who may do what on a node whose clients have to log in. It is safe for concurrent use.
//
// A statement knows what it needs, and a session what its role may do at the present state of the roles: as long as the
// state stays the same, a check is two look-ups.
type Authority struct {
	datacenter string
	configured func(name string) bool
	// strict is true if a change of the password or of LOGIN ends sessions.
	strict  bool
	current atomic.Pointer[roleCache]
}

// era is one state of the roles, with the roles that were resolved in it.
type roleCache struct {
	state    *access.State
	resolved sync.Map // name -> *access.Subject
}

// NewAuthority makes an authority for a node in a data center. configured reports whether a name is a user of the
// node's configuration. If strict is true, a change of the password or of LOGIN ends the sessions of a role.
func NewAuthority(datacenter string, configured func(name string) bool, strict bool) *Authority {
	a := &Authority{datacenter: datacenter, configured: configured, strict: strict}
	a.Set(&access.State{})
	return a
}

// Set makes a state of the roles the present one: the next request of every session goes by it.
func (a *Authority) Set(s *access.State) { a.current.Store(&roleCache{state: s}) }

// State is the present one.
func (a *Authority) State() *access.State { return a.current.Load().state }

// Subject is a role at the present state.
func (a *Authority) Subject(name string) *access.Subject { return a.subject(a.current.Load(), name) }

// Ended reports whether the sessions that began with a login have ended: see access.Login.Ends.
func (a *Authority) Ended(l *access.Login) bool { return l.Ends(a.Subject(l.Role), a.strict) }

// Datacenter is that of the node.
func (a *Authority) Datacenter() string { return a.datacenter }

func (a *Authority) subject(e *roleCache, name string) *access.Subject {
	if s, ok := e.resolved.Load(name); ok {
		return s.(*access.Subject)
	}
	s, _ := e.resolved.LoadOrStore(name, e.state.Resolve(name, a.configured(name)))
	return s.(*access.Subject)
}

// admitted is what a session may do in an era.
type sessionAccess struct {
	cache   *roleCache
	subject *access.Subject
	err     error // why it is not served at all
}

// need is a permission that a statement takes.
type requiredPermission struct {
	permission access.Permission
	on         access.Resource
}

// subject is the role of the session, or what the key of an account allows; nil where nobody has to log in. The error
// says why nothing of it is served any more.
func (s *Session) subject() (*access.Subject, error) {
	if s.account != nil {
		return s.account, nil
	}
	a := s.engine.opts.Authority
	if a == nil {
		return nil, nil
	}
	present := a.current.Load()
	have := s.access.Load()
	if have == nil || have.cache != present {
		have = &sessionAccess{cache: present, subject: a.subject(present, s.client.User)}
		if login := s.client.Login(); login.Ends(have.subject, a.strict) {
			have.subject = access.Ended(s.client.User)
		}
		if have.err = have.subject.Admit(a.datacenter, s.client.Remote.Addr()); s.client.User == "" {
			have.err = &dberr.Unauthorized{Message: "You have not logged in"}
		}
		s.access.Store(have)
	}
	return have.subject, have.err
}

// check returns why the client must not execute a statement. What a statement makes or changes in the schema or among
// the roles is checked where that is done.
func (s *Session) check(st *statement) error {
	who, err := s.subject()
	if err != nil {
		return err
	}
	if s.account != nil {
		if err := hiddenFromAccounts(st); err != nil {
			return err
		}
	}
	if who != nil && !who.Superuser {
		for i := range st.required {
			if err := who.Check(st.required[i].permission, st.required[i].on); err != nil {
				return err
			}
		}
		for i := range st.maskedUses {
			if err := s.checkMaskedUse(who, &st.maskedUses[i]); err != nil {
				return err
			}
		}
	}
	return st.locked
}

// actor is the client as package ddl knows it.
func (s *Session) actor() (ddl.Actor, error) {
	who, err := s.subject()
	if who == nil || err != nil {
		return ddl.Actor{}, err
	}
	if s.account != nil {
		return ddl.Actor{Check: who.Check}, nil // there is no role that what is made could belong to
	}
	return ddl.Actor{Role: who.Name, Check: who.Check}, nil
}

// hiddenFromAccounts refuses what clients of Azure Cosmos DB do not find there, and would misunderstand here: by
// system.peers_v2 they would go on to the other nodes at the port of CQL, which asks for roles. Without it they stay
// with the port that they were told.
func hiddenFromAccounts(st *statement) error {
	for _, t := range st.tables {
		if t.Keyspace == "system" && t.Name == "peers_v2" {
			return dberr.Invalidf("table %s does not exist", t.Name)
		}
	}
	return nil
}

// needsRead notes what reading a table takes.
func (st *statement) requireSelect(t *schema.Table) {
	if !access.Readable(t.Keyspace, t.Name) {
		st.required = append(st.required, requiredPermission{access.Select, access.OfTable(t.Keyspace, t.Guarded())})
	}
}

// needsWrite notes what writing to a table takes: with a condition, reading it as well, since the answer tells what is
// there.
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
		return c.Result.Fail(dberr.Unauthorizedf("A key of the account stands for no role, and neither sees roles nor " +
			"changes them: log in as a role, at the address of CQL"))
	}
	r := roles.Request{Statement: st.parsed, Text: st.text, Keyspace: st.keyspace, Who: who,
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
