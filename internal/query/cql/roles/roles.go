// SPDX-License-Identifier: Apache-2.0

// Package roles executes the statements about roles and permissions. It converts the statements into changes of package
// access. It executes LIST statements on the current state.
//
// Guarantees:
//
//   - (RO1) A password is hashed before it leaves the package, and only if the requesting role may set it.
//   - (RO2) LIST returns only roles and permissions that the requesting role may see.
//
// Start reading at Executor.Execute.
package roles

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Store makes a change durable and distributes it. When ApplyRoles returns, the change is effective on this node.
type Store interface {
	ApplyRoles(ctx context.Context, c access.Change, actor string) (warnings []string, err error)
}

// Request holds a statement and the data that its execution requires.
type Request struct {
	Statement parser.Statement
	// Text is the original text of the statement. One error message contains Text.
	Text string
	// Keyspace is the session's keyspace, or empty.
	Keyspace string
	// Subject is the requesting role, or nil if authentication is off. State and Schema are the current roles and the
	// current schema.
	Subject *access.Subject
	State   *access.State
	Schema  *schema.Schema
}

// Executor executes role statements. It is safe for concurrent use.
type Executor struct {
	store Store
	// hashing limits the number of concurrent password hashes.
	hashing chan struct{}
}

// maxConcurrentHashes is the maximum number of concurrent password hashes.
const maxConcurrentHashes = 2

// New returns an executor.
func New(store Store) *Executor {
	return &Executor{store: store, hashing: make(chan struct{}, maxConcurrentHashes)}
}

// Handles reports whether this package executes a statement.
func Handles(stmt parser.Statement) bool {
	switch stmt.(type) {
	case *parser.CreateRole, *parser.AlterRole, *parser.DropRole, *parser.GrantPermissions, *parser.GrantRole,
		*parser.ListPermissions, *parser.ListRoles, *parser.ListUsers, *parser.AddIdentity, *parser.DropIdentity:
		return true
	}
	return false
}

var errAnonymous = &dberr.Unauthorized{Message: "You have to be logged in and not anonymous to perform this request"}

// Execute executes a statement for which Handles returns true. Unless the statement is a LIST with a nonempty result,
// rows is nil.
func (e *Executor) Execute(ctx context.Context, r *Request) (rows *Rows, warnings []string, err error) {
	if r.Subject == nil {
		return nil, nil, errAnonymous
	}
	switch s := r.Statement.(type) {
	case *parser.ListPermissions:
		rows, err = listPermissions(r, s)
		return rows, nil, err
	case *parser.ListRoles:
		rows, err = listRoles(r, s)
		return rows, nil, err
	case *parser.ListUsers:
		return listUsers(r), nil, nil
	}
	change, err := e.change(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	warnings, err = e.store.ApplyRoles(ctx, change, r.Subject.Name)
	return nil, warnings, err
}

func (e *Executor) change(ctx context.Context, r *Request) (access.Change, error) {
	switch s := r.Statement.(type) {
	case *parser.CreateRole:
		a, err := e.attributes(ctx, &s.Options, r.Subject.May(access.Create, access.Resource{Kind: access.AllRoles}))
		if s.User {
			yes := true
			a.Login = &yes
		}
		return &access.CreateRole{Name: s.Role.Name, IfNotExists: s.IfNotExists, Attributes: a,
			ID: access.RoleID(uuid.New())}, err
	case *parser.AlterRole:
		own := r.Subject.Name == s.Role.Name
		a, err := e.attributes(ctx, &s.Options, own || r.Subject.May(access.Alter, access.OfRole(s.Role.Name)))
		return &access.AlterRole{Name: s.Role.Name, IfExists: s.IfExists, Attributes: a}, err
	case *parser.DropRole:
		return &access.DropRole{Name: s.Role.Name, IfExists: s.IfExists}, nil
	case *parser.AddIdentity:
		return &access.AddIdentity{Identity: s.Identity, Role: s.Role.Name, IfNotExists: s.IfNotExists}, nil
	case *parser.DropIdentity:
		return &access.DropIdentity{Identity: s.Identity, IfExists: s.IfExists}, nil
	case *parser.GrantRole:
		return &access.GrantRole{Revoke: s.Revoke, Role: s.Role.Name, Grantee: s.Grantee.Name}, nil
	case *parser.GrantPermissions:
		on, err := r.resource(&s.Resource)
		return &access.Grant{Revoke: s.Revoke, Permissions: s.Permissions, On: on, Role: s.Role.Name}, err
	}
	return nil, dberr.Invalidf("This statement is not supported")
}

// PasswordBytesMax is the maximum number of password bytes that bcrypt uses. A client could log in with the first
// PasswordBytesMax bytes of a longer password.
const PasswordBytesMax = 72

// attributes returns the attributes in the options of a role. If allowed is false, the password is not hashed, because
// the change will be rejected and hashing would waste CPU time.
func (e *Executor) attributes(ctx context.Context, o *parser.RoleOptions, allowed bool) (access.Attributes, error) {
	a := access.Attributes{
		Login: o.Login, Superuser: o.Superuser, Hash: o.HashedPassword, Hashed: o.HashedPassword != nil,
	}
	if err := options(&a, o.Options); err != nil {
		return a, err
	}
	switch {
	case o.AllDatacenters:
		a.Datacenters = &[]string{}
	case o.Datacenters != nil:
		a.Datacenters = &o.Datacenters
	}
	switch {
	case o.AllCIDRs:
		a.Groups = &[]string{}
	case o.CIDRs != nil:
		a.Groups = &o.CIDRs
	}
	if o.Password == nil {
		return a, nil
	}
	if !allowed {
		a.Hash = new(string)
		return a, nil
	}
	hash, err := e.hash(ctx, *o.Password)
	a.Hash = &hash
	return a, err
}

// priorityOption is the name of the only supported role option. The values of the option are low and normal.
const priorityOption = "priority"

// options sets the attributes in OPTIONS = {..}. If the statement does not contain the clause, given is nil.
func options(a *access.Attributes, given *[]parser.PropertyEntry) error {
	if given == nil {
		return nil
	}
	for _, o := range *given {
		low := o.Value == "low"
		switch {
		case o.Key != priorityOption:
			a.Options = true
		case !low && o.Value != "normal":
			return dberr.Invalidf("The priority of a role must be 'low' or 'normal', not '%s'", o.Value)
		default:
			a.Low = &low
		}
	}
	a.Options = a.Options || len(*given) == 0
	return nil
}

func (e *Executor) hash(ctx context.Context, password string) (string, error) {
	if len(password) > PasswordBytesMax {
		return "", dberr.Invalidf("A password must not exceed %d bytes", PasswordBytesMax)
	}
	select {
	case e.hashing <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-e.hashing }()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return string(hash), err
}

// resource returns the resource of a permission.
func (r *Request) resource(p *parser.Resource) (access.Resource, error) {
	on := access.Resource{Kind: p.Kind, Keyspace: p.Name.Keyspace.Name, Name: p.Name.Name.Name}
	switch p.Kind {
	case access.Table:
		if on.Keyspace == "" {
			on.Keyspace = r.Keyspace
		}
		if on.Keyspace == "" {
			return on, dberr.Invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
		}
	case access.Function:
		if p.Procedure.Name != "" {
			return r.procedure(p)
		}
		if !p.Name.HasKeyspace() {
			return on, dberr.Invalidf("In this context function name must be explictly qualified by a keyspace")
		}
		if f := r.function(p); f != nil {
			return access.OfFunction(f.Keyspace, f.Name, f.ArgTypes()), nil
		}
		// Cassandra returns this error for a function that does not exist.
		return on, dberr.Syntaxf("Failed parsing statement: [%s] reason: NoSuchElementException No value present",
			r.Text)
	case access.MBean:
		if on.Name = p.MBean; !mbean(p.MBean) {
			return on, dberr.Syntaxf("%s is not a valid JMX object name", p.MBean)
		}
	}
	return on, nil
}

// procedure returns the stored procedure of a container.
func (r *Request) procedure(p *parser.Resource) (access.Resource, error) {
	keyspace, name := p.Name.Keyspace.Name, p.Name.Name.Name
	t := r.Schema.Table(keyspace, name)
	if t == nil || t.Container == nil {
		return access.Resource{}, dberr.Invalidf("container %s.%s does not exist", keyspace, name)
	}
	ids := t.Container.Procedures(p.Procedure.Name, p.Procedure.Quoted)
	switch len(ids) {
	case 0:
		return access.Resource{}, dberr.Invalidf("container %s has no procedure %s", t,
			cqltype.QuoteName(p.Procedure.Name))
	case 1:
		return access.OfProcedure(t.Keyspace, t.Name, ids[0]), nil
	}
	return access.Resource{}, dberr.Invalidf("container %s has the procedures %s: specify the exact name in double quotes",
		t, strings.Join(ids, ", "))
}

// function returns the function of a resource, or nil if the function does not exist.
func (r *Request) function(p *parser.Resource) *schema.Function {
	ks := r.Schema.Keyspace(p.Name.Keyspace.Name)
	if ks == nil {
		return nil
	}
	var args []*cqltype.Type
	for _, name := range p.Args {
		t, err := catalog.ResolveType(name, ks)
		if err != nil {
			return nil
		}
		args = append(args, t)
	}
	return ks.Function(p.Name.Name.Name, args)
}

// mbean reports whether a text is an MBean name or an MBean pattern. Both consist of a domain, a colon, and properties
// or a star.
func mbean(name string) bool {
	_, properties, ok := strings.Cut(name, ":")
	return ok && (strings.Contains(properties, "=") || properties == "*")
}
