// SPDX-License-Identifier: Apache-2.0

package parser

// roleName parses the name of a role: an identifier, or a string that is taken as it is.
func (p *parser) roleName() Ident {
	if p.is(tString) {
		id := Ident{Name: p.stringText(), Quoted: true}
		p.advance()
		return id
	}
	return p.bindable(roleName)
}

// userName parses the name of a user, which unlike that of a role may not be a quoted identifier. Its case is kept.
func (p *parser) userName() Ident {
	switch p.tok.kind {
	case tString:
		return p.roleName()
	case tQuoted, tEmptyQuoted:
		p.refuse("Quoted strings are are not supported for user names and USER is deprecated, please use ROLE")
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

// userOptions parses the optional WITH PASSWORD 'x' SUPERUSER of a user.
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

// roleOptions parses an optional WITH and role options joined by AND.
func (p *parser) roleOptions() RoleOptions {
	var o RoleOptions
	if !p.accept(kwWith) {
		return o
	}
	for {
		p.roleOption(&o)
		if !p.accept(kwAnd) {
			return o
		}
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

// once refuses an option that was given before.
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

// accessOption parses what follows ACCESS: TO ALL DATACENTERS, TO DATACENTERS {..}, FROM ALL CIDRS, FROM CIDRS {..}.
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

// beginsPermissions reports whether permissions stand here, not a role that is named like one (GRANT all TO x).
func (p *parser) beginsPermissions() bool {
	if p.is(kwAll) || p.permission() >= 0 {
		next := p.peek(1)
		return next == kwOn || next == kwPermission || next == kwPermissions || next == tComma || next == kwMasked || !p.tok.kind.isName()
	}
	return false
}

// permission returns the permission at the current token, or -1.
func (p *parser) permission() int {
	switch p.tok.kind {
	case kwCreate:
		return int(PermissionCreate)
	case kwAlter:
		return int(PermissionAlter)
	case kwDrop:
		return int(PermissionDrop)
	case kwSelect:
		if p.peek(1) == kwMasked {
			return int(PermissionSelectMasked)
		}
		return int(PermissionSelect)
	case kwModify:
		return int(PermissionModify)
	case kwAuthorize:
		return int(PermissionAuthorize)
	case kwDescribe:
		return int(PermissionDescribe)
	case kwExecute:
		return int(PermissionExecute)
	case kwUnmask:
		return int(PermissionUnmask)
	case kwSelectMasked:
		return int(PermissionSelectMasked)
	}
	return -1
}

// permissions parses ALL [PERMISSIONS], or permissions separated by commas; the result is in ascending order.
func (p *parser) permissions() (all bool, list []Permission) {
	if p.accept(kwAll) {
		p.accept(kwPermissions)
		return true, permissionSet(1<<len(permissionNames) - 1).list()
	}
	var set permissionSet
	for {
		perm := p.permission()
		if perm < 0 {
			p.fail()
			return false, nil
		}
		if p.is(kwSelect) && perm == int(PermissionSelectMasked) {
			p.advance()
		}
		p.advance()
		p.accept(kwPermission)
		set |= 1 << perm
		if !p.accept(tComma) {
			return false, set.list()
		}
	}
}

// list parses the statements that begin with LIST.
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

// resource parses what a permission is about.
func (p *parser) resource() Resource {
	var r Resource
	object := p.tok.kind
	next := p.peek(1)
	switch {
	case object == kwAll && (next == kwKeyspaces || next == kwTable || next == kwRoles || next == kwFunctions || next == kwMBeans || next == kwTables):
		p.advance()
		return p.allResource()
	case object == kwKeyspace:
		p.advance()
		r.Kind, r.Name.Keyspace = KeyspaceResource, p.bindable(keyspaceName)
	case object == kwTable:
		p.advance()
		r.Kind, r.Name = TableResource, p.tableName()
	case object == kwRole && (next.isName() || next == tString):
		p.advance()
		r.Kind, r.Name.Name = RoleResource, p.roleName()
	case object == kwFunction && (next.isName() || next.isFunctionName()):
		p.advance()
		r.Kind, r.Name = FunctionResource, p.functionName()
		p.expect(tOpen)
		r.Args = p.typeList()
	case object == kwMBean && next == tString:
		p.advance()
		r.Kind, r.MBean = MBeanResource, p.stringLiteral()
	case object == kwMBeans && next == tString:
		p.advance()
		r.Kind, r.MBean = MBeansResource, p.stringLiteral()
	default:
		r.Kind, r.Name = TableResource, p.tableName()
	}
	return r
}

// allResource parses what follows ALL.
func (p *parser) allResource() Resource {
	var r Resource
	switch object := p.tok.kind; object {
	case kwKeyspaces:
		r.Kind = AllKeyspaces
	case kwRoles:
		r.Kind = AllRoles
	case kwMBeans:
		r.Kind = AllMBeans
	case kwFunctions:
		r.Kind = AllFunctions
	case kwTables:
		r.Kind = AllTablesInKeyspace
	}
	p.advance()
	if r.Kind == AllTablesInKeyspace || r.Kind == AllFunctions && p.is(kwIn) {
		p.expect(kwIn)
		p.expect(kwKeyspace)
		r.Name.Keyspace = p.bindable(keyspaceName)
		if r.Kind == AllFunctions {
			r.Kind = AllFunctionsInKeyspace
		}
	}
	return r
}

// permissionSet is a set of permissions, by bits.
type permissionSet uint16

func permissionsOf(list ...Permission) permissionSet {
	var set permissionSet
	for _, p := range list {
		set |= 1 << p
	}
	return set
}

func (s permissionSet) list() []Permission {
	var list []Permission
	for p := range Permission(len(permissionNames)) {
		if s&(1<<p) != 0 {
			list = append(list, p)
		}
	}
	return list
}

// applicable returns the permissions that a resource admits, and Cassandra's word for its type.
func (r *Resource) applicable() (permissionSet, string) {
	switch r.Kind {
	case TableResource:
		return permissionsOf(PermissionAlter, PermissionDrop, PermissionSelect, PermissionModify, PermissionAuthorize, PermissionUnmask,
			PermissionSelectMasked), "DataResource"
	case AllRoles:
		return permissionsOf(PermissionCreate, PermissionAlter, PermissionDrop, PermissionAuthorize, PermissionDescribe), "RoleResource"
	case RoleResource:
		return permissionsOf(PermissionAlter, PermissionDrop, PermissionAuthorize), "RoleResource"
	case AllFunctions, AllFunctionsInKeyspace:
		return permissionsOf(PermissionCreate, PermissionAlter, PermissionDrop, PermissionAuthorize, PermissionExecute), "FunctionResource"
	case FunctionResource:
		return permissionsOf(PermissionAlter, PermissionDrop, PermissionAuthorize, PermissionExecute), "FunctionResource"
	case AllMBeans, MBeanResource, MBeansResource:
		return permissionsOf(PermissionSelect, PermissionModify, PermissionAuthorize, PermissionDescribe, PermissionExecute), "JMXResource"
	}
	return permissionsOf(PermissionCreate, PermissionAlter, PermissionDrop, PermissionSelect, PermissionModify, PermissionAuthorize,
		PermissionUnmask, PermissionSelectMasked), "DataResource"
}

// applicable drops the permissions that r does not admit, and refuses if none remains.
func (p *parser) applicable(list []Permission, r *Resource) []Permission {
	if p.failed {
		return nil
	}
	allowed, class := r.applicable()
	kept := (permissionsOf(list...) & allowed).list()
	if len(kept) == 0 {
		p.refuse("Resource type %s does not support any of the requested permissions", class)
	}
	return kept
}
