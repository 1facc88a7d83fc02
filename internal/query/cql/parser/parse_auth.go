// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/access"
)

// roleName parses a role name. The name is an identifier or a string.
func (p *parser) roleName() Ident {
	if p.is(tString) || p.is(tDollar) {
		id := Ident{Name: p.stringText(), Quoted: true}
		p.advance()
		return id
	}
	return p.bindable(roleName)
}

// userName parses a user name. Unlike a role name, a user name must not be a quoted identifier. The case of the name is
// preserved.
func (p *parser) userName() Ident {
	return p.unquoted("Quoted strings are are not supported for user names and USER is deprecated, please use ROLE")
}

// identity parses a certificate identity or the role of an identity. The syntax is the same as for userName.
func (p *parser) identity() Ident {
	return p.unquoted("Quoted strings are are not supported for identity")
}

// unquoted parses a string or a name. It rejects quoted identifiers with the error text refusal.
func (p *parser) unquoted(refusal string) Ident {
	switch p.tok.kind {
	case tString, tDollar:
		return p.roleName()
	case tQuoted, tEmptyQuoted:
		p.refuse("%s", refusal)
	}
	if !p.tok.kind.isName() {
		p.fail()
		return Ident{}
	}
	written := p.text()
	id := p.ident()
	if written != id.Name {
		id = Ident{Name: written, Quoted: true}
	}
	return id
}

// isIdentity reports whether a token is the word IDENTITY. The word is not a keyword.
func (p *parser) isIdentity(t token) bool {
	return t.kind.isName() && strings.EqualFold(p.lex.text[t.begin:t.end], "identity")
}

// addIdentity parses ADD IDENTITY.
func (p *parser) addIdentity() Statement {
	p.expect(kwAdd)
	if !p.isIdentity(p.tok) {
		p.fail()
		return nil
	}
	p.advance()
	s := &AddIdentity{IfNotExists: p.ifNotExists(), Identity: p.identity().Name}
	p.expect(kwTo)
	p.expect(kwRole)
	s.Role = p.identity()
	return s
}

// userOptions parses the optional clause WITH PASSWORD 'x' SUPERUSER.
func (p *parser) userOptions() RoleOptions {
	var o RoleOptions
	if p.accept(kwWith) {
		hashed := p.accept(kwHashed)
		p.expect(kwPassword)
		password := p.stringLiteral()
		if hashed {
			o.HashedPassword = &password
		} else {
			o.Password = &password
		}
	}
	if yes := p.is(kwSuperuser); yes || p.is(kwNoSuperuser) {
		p.advance()
		o.Superuser = &yes
	}
	return o
}

// roleOptions parses the optional WITH clause. The role options are joined by AND.
func (p *parser) roleOptions() RoleOptions {
	var o RoleOptions
	if !p.accept(kwWith) {
		return o
	}
	for {
		p.roleOption(&o)
		if p.accept(kwAnd) {
			continue
		}
		if o.Password != nil && o.HashedPassword != nil {
			p.refuse("Options 'password' and 'hashed password' are mutually exclusive")
		}
		return o
	}
}

func (p *parser) roleOption(o *RoleOptions) {
	k := p.tok.kind
	switch k {
	case kwPassword, kwHashed:
		p.advance()
		if k == kwHashed {
			p.expect(kwPassword)
		}
		p.expect(tEqual)
		password := p.stringLiteral()
		if k == kwHashed {
			p.once(o.HashedPassword != nil, "HASHED PASSWORD")
			o.HashedPassword = &password
		} else {
			p.once(o.Password != nil, "PASSWORD")
			o.Password = &password
		}
	case kwOptions:
		p.advance()
		p.expect(tEqual)
		options := p.propertyMap()
		p.once(o.Options != nil, "OPTIONS")
		o.Options = &options
	case kwSuperuser:
		p.advance()
		yes := p.equalBoolean()
		p.once(o.Superuser != nil, "SUPERUSER")
		o.Superuser = &yes
	case kwLogin:
		p.advance()
		yes := p.equalBoolean()
		p.once(o.Login != nil, "LOGIN")
		o.Login = &yes
	case kwAccess:
		p.advance()
		p.accessOption(o)
	default:
		p.fail()
	}
}

// once rejects an option that occurs twice.
func (p *parser) once(given bool, name string) {
	if given {
		p.refuse("Multiple definition for property '%s'", name)
	}
}

func (p *parser) equalBoolean() bool {
	p.expect(tEqual)
	if p.accept(kwTrue) {
		return true
	}
	if !p.accept(kwFalse) {
		p.fail()
	}
	return false
}

// accessOption parses the part after ACCESS. It is TO ALL DATACENTERS, TO DATACENTERS {..}, FROM ALL CIDRS, or FROM
// CIDRS {..}.
func (p *parser) accessOption(o *RoleOptions) {
	if p.accept(kwFrom) {
		if p.accept(kwAll) {
			o.AllCIDRs = true
			p.expect(kwCIDRs)
			return
		}
		p.expect(kwCIDRs)
		o.CIDRs = p.stringSet()
		return
	}
	p.expect(kwTo)
	if p.accept(kwAll) {
		o.AllDatacenters = true
		p.expect(kwDatacenters)
		return
	}
	p.expect(kwDatacenters)
	o.Datacenters = p.stringSet()
}

func (p *parser) stringSet() []string {
	p.expect(tOpenBrace)
	var list []string
	for {
		list = append(list, p.stringLiteral())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tCloseBrace)
	return list
}

// grantOrRevoke parses GRANT and REVOKE of permissions and of roles.
func (p *parser) grantOrRevoke() Statement {
	revoke := p.is(kwRevoke)
	preposition := kwTo
	if revoke {
		preposition = kwFrom
	}
	p.advance()
	if !p.beginsPermissions() {
		s := &GrantRole{Revoke: revoke, Role: p.roleName()}
		p.expect(preposition)
		s.Grantee = p.roleName()
		return s
	}
	s := &GrantPermissions{Revoke: revoke}
	s.All, s.Permissions = p.permissions()
	p.expect(kwOn)
	s.Resource = p.resource()
	p.expect(preposition)
	s.Role = p.roleName()
	s.Permissions = p.applicable(s.Permissions, &s.Resource)
	return s
}

// beginsPermissions reports whether permissions follow. If a role with the name of a permission follows, as in GRANT
// all TO x, it returns false.
func (p *parser) beginsPermissions() bool {
	if p.is(kwAll) || p.permission() >= 0 {
		next := p.peek(1)
		return next == kwOn || next == kwPermission || next == kwPermissions || next == tComma || next == kwMasked ||
			!p.tok.kind.isName()
	}
	return false
}

// permission returns the permission at the current token, or -1 if the token is not a permission.
func (p *parser) permission() int {
	switch p.tok.kind {
	case kwCreate:
		return int(access.Create)
	case kwAlter:
		return int(access.Alter)
	case kwDrop:
		return int(access.Drop)
	case kwSelect:
		if p.peek(1) == kwMasked {
			return int(access.SelectMasked)
		}
		return int(access.Select)
	case kwModify:
		return int(access.Modify)
	case kwAuthorize:
		return int(access.Authorize)
	case kwDescribe:
		return int(access.Describe)
	case kwExecute:
		return int(access.Execute)
	case kwUnmask:
		return int(access.Unmask)
	case kwSelectMasked:
		return int(access.SelectMasked)
	}
	return -1
}

// permissions parses ALL [PERMISSIONS] or a comma-separated list of permissions.
func (p *parser) permissions() (all bool, set access.Permissions) {
	if p.accept(kwAll) {
		p.accept(kwPermissions)
		return true, access.AllPermissions
	}
	for {
		perm := p.permission()
		if perm < 0 {
			p.fail()
			return false, 0
		}
		if p.is(kwSelect) && perm == int(access.SelectMasked) {
			p.advance()
		}
		p.advance()
		p.accept(kwPermission)
		set |= 1 << perm
		if !p.accept(tComma) {
			return false, set
		}
	}
}

// list parses the statements that start with LIST.
func (p *parser) list() Statement {
	p.expect(kwList)
	switch {
	case p.accept(kwRoles):
		s := &ListRoles{}
		if p.accept(kwOf) {
			s.Role = p.roleName()
		}
		s.NoRecursive = p.accept(kwNoRecursive)
		return s
	case p.accept(kwUsers):
		return &ListUsers{}
	}
	s := &ListPermissions{}
	s.All, s.Permissions = p.permissions()
	if p.accept(kwOn) {
		r := p.resource()
		s.Resource = &r
	}
	if p.accept(kwOf) {
		s.Role = p.roleName()
	}
	s.NoRecursive = p.accept(kwNoRecursive)
	return s
}

// resource parses the resource of a permission.
func (p *parser) resource() Resource {
	var r Resource
	object := p.tok.kind
	next := p.peek(1)
	switch {
	case object == kwAll && (next == kwKeyspaces || next == kwTable || next == kwRoles || next == kwFunctions ||
		next == kwMBeans || next == kwTables):
		p.advance()
		return p.allResource()
	case object == kwKeyspace:
		p.advance()
		r.Kind, r.Name.Keyspace = access.Keyspace, p.bindable(keyspaceName)
	case object == kwTable:
		p.advance()
		r.Kind, r.Name = access.Table, p.tableName()
	case object == kwRole && (next.isName() || next == tString || next == tDollar):
		p.advance()
		r.Kind, r.Name.Name = access.RoleKind, p.roleName()
	case object == kwFunction && (next.isName() || next.isFunctionName()):
		p.advance()
		r.Kind, r.Name = access.Function, p.functionName()
		p.expect(tOpen)
		r.Args = p.typeList()
	case p.isWord("procedure") && p.peek(2) == tDot: // otherwise, procedure is a table or keyspace name
		p.advance()
		r.Kind, r.Name.Keyspace = access.Function, p.name()
		p.expect(tDot)
		r.Name.Name = p.name()
		p.expect(tDot)
		r.Procedure = p.name()
	case object == kwMBean && next == tString:
		p.advance()
		r.Kind, r.MBean = access.MBean, p.stringLiteral()
	case object == kwMBeans && next == tString:
		p.advance()
		r.Kind, r.MBeans, r.MBean = access.MBean, true, p.stringLiteral()
	default:
		r.Kind, r.Name = access.Table, p.tableName()
	}
	return r
}

// allResource parses the part after ALL.
func (p *parser) allResource() Resource {
	var r Resource
	switch object := p.tok.kind; object {
	case kwKeyspaces:
		r.Kind = access.AllKeyspaces
	case kwRoles:
		r.Kind = access.AllRoles
	case kwMBeans:
		r.Kind = access.AllMBeans
	case kwFunctions:
		r.Kind = access.AllFunctions
	case kwTables:
		r.Kind = access.AllTables
	}
	p.advance()
	if r.Kind == access.AllTables || r.Kind == access.AllFunctions && p.is(kwIn) {
		p.expect(kwIn)
		p.expect(kwKeyspace)
		r.Name.Keyspace = p.bindable(keyspaceName)
		if r.Kind == access.AllFunctions {
			r.Kind = access.AllFunctionsInKeyspace
		}
	}
	return r
}

// applicable removes the permissions that do not apply to r. If no permission remains, it reports an error.
func (p *parser) applicable(set access.Permissions, r *Resource) access.Permissions {
	if p.failed {
		return 0
	}
	resource := access.Resource{Kind: r.Kind}
	if set &= resource.Applicable(); set == 0 {
		p.refuse("Resource type %s does not support any of the requested permissions", resource.Class())
	}
	return set
}
