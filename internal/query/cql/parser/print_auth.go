// SPDX-License-Identifier: Apache-2.0

package parser

import "github.com/ilion-db/ilion/internal/model/access"

// role prints the name of a role or user. If the case of the name matters, role prints a string, because a user name
// must not be a quoted identifier.
func (p *printer) role(id Ident) {
	if id.Quoted || !isBare(id.Name) {
		p.str(id.Name)
		return
	}
	p.put(id.Name)
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateRole) String() string {
	return printed(func(p *printer) {
		p.put("CREATE ", roleWord(s.User))
		p.when(s.IfNotExists, ifNotExists)
		p.role(s.Role)
		p.roleOptions(s.User, &s.Options)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *AlterRole) String() string {
	return printed(func(p *printer) {
		p.put("ALTER ", roleWord(s.User))
		p.when(s.IfExists, ifExists)
		p.role(s.Role)
		p.roleOptions(s.User, &s.Options)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropRole) String() string {
	return printed(func(p *printer) {
		p.put("DROP ", roleWord(s.User))
		p.when(s.IfExists, ifExists)
		p.role(s.Role)
	})
}

func roleWord(user bool) string {
	if user {
		return "USER "
	}
	return "ROLE "
}

func (p *printer) roleOptions(user bool, o *RoleOptions) {
	if user {
		p.userOptions(o)
		return
	}
	word := " WITH "
	option := func(name string) {
		p.put(word, name)
		word = " AND "
	}
	if o.Password != nil {
		option("PASSWORD = ")
		p.str(*o.Password)
	}
	if o.HashedPassword != nil {
		option("HASHED PASSWORD = ")
		p.str(*o.HashedPassword)
	}
	if o.Superuser != nil {
		option("SUPERUSER = ")
		p.boolean(*o.Superuser)
	}
	if o.Login != nil {
		option("LOGIN = ")
		p.boolean(*o.Login)
	}
	if o.Options != nil {
		option("OPTIONS = ")
		p.entries(*o.Options)
	}
	if o.AllDatacenters {
		option("ACCESS TO ALL DATACENTERS")
	}
	if len(o.Datacenters) > 0 {
		option("ACCESS TO DATACENTERS {")
		p.strings(o.Datacenters)
		p.put("}")
	}
	if o.AllCIDRs {
		option("ACCESS FROM ALL CIDRS")
	}
	if len(o.CIDRs) > 0 {
		option("ACCESS FROM CIDRS {")
		p.strings(o.CIDRs)
		p.put("}")
	}
}

func (p *printer) userOptions(o *RoleOptions) {
	if o.Password != nil {
		p.put(" WITH PASSWORD ")
		p.str(*o.Password)
	}
	if o.HashedPassword != nil {
		p.put(" WITH HASHED PASSWORD ")
		p.str(*o.HashedPassword)
	}
	if o.Superuser != nil {
		if *o.Superuser {
			p.put(" SUPERUSER")
		} else {
			p.put(" NOSUPERUSER")
		}
	}
}

func (p *printer) boolean(yes bool) {
	if yes {
		p.put("true")
	} else {
		p.put("false")
	}
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *GrantPermissions) String() string {
	return printed(func(p *printer) {
		verb, preposition := "GRANT ", " TO "
		if s.Revoke {
			verb, preposition = "REVOKE ", " FROM "
		}
		p.put(verb)
		p.permissions(s.All, s.Permissions)
		p.put(" ON ")
		p.resource(&s.Resource)
		p.put(preposition)
		p.role(s.Role)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *GrantRole) String() string {
	return printed(func(p *printer) {
		verb, preposition := "GRANT ", " TO "
		if s.Revoke {
			verb, preposition = "REVOKE ", " FROM "
		}
		p.put(verb)
		p.role(s.Role)
		p.put(preposition)
		p.role(s.Grantee)
	})
}

func (p *printer) permissions(all bool, set access.Permissions) {
	if all {
		p.put("ALL PERMISSIONS")
		return
	}
	p.put(set.String())
}

// String prints the resource in the notation of GRANT.
func (r *Resource) String() string { return printed(func(p *printer) { p.resource(r) }) }

func (p *printer) resource(r *Resource) {
	switch r.Kind {
	case access.AllKeyspaces:
		p.put("ALL KEYSPACES")
	case access.Keyspace:
		p.put("KEYSPACE ", r.Name.Keyspace.String())
	case access.AllTables:
		p.put("ALL TABLES IN KEYSPACE ", r.Name.Keyspace.String())
	case access.Table:
		p.put("TABLE ")
		p.name(r.Name)
	case access.AllRoles:
		p.put("ALL ROLES")
	case access.RoleKind:
		p.put("ROLE ")
		p.role(r.Name.Name)
	case access.AllFunctions:
		p.put("ALL FUNCTIONS")
	case access.AllFunctionsInKeyspace:
		p.put("ALL FUNCTIONS IN KEYSPACE ", r.Name.Keyspace.String())
	case access.Function:
		if r.Procedure.Name != "" {
			p.put("PROCEDURE ")
			p.name(r.Name)
			p.put(".")
			p.ident(r.Procedure)
			break
		}
		p.put("FUNCTION ", signature(r.Name, true, r.Args))
	case access.AllMBeans:
		p.put("ALL MBEANS")
	case access.MBean:
		p.put("MBEAN")
		p.when(r.MBeans, "S")
		p.put(" ")
		p.str(r.MBean)
	}
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *ListPermissions) String() string {
	return printed(func(p *printer) {
		p.put("LIST ")
		p.permissions(s.All, s.Permissions)
		if s.Resource != nil {
			p.put(" ON ")
			p.resource(s.Resource)
		}
		p.ofRole(s.Role, s.NoRecursive)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *ListRoles) String() string {
	return printed(func(p *printer) {
		p.put("LIST ROLES")
		p.ofRole(s.Role, s.NoRecursive)
	})
}

func (p *printer) ofRole(role Ident, noRecursive bool) {
	if role.Name != "" || role.Quoted {
		p.put(" OF ")
		p.role(role)
	}
	p.when(noRecursive, " NORECURSIVE")
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *ListUsers) String() string { return "LIST USERS" }

var describeWords = [...]string{
	DescribeCluster: "CLUSTER", DescribeSchema: "SCHEMA", DescribeKeyspaces: "KEYSPACES",
	DescribeKeyspace: "KEYSPACE", DescribeTables: "TABLES", DescribeTable: "TABLE", DescribeIndex: "INDEX",
	DescribeView: "MATERIALIZED VIEW", DescribeTypes: "TYPES", DescribeType: "TYPE", DescribeFunctions: "FUNCTIONS",
	DescribeFunction: "FUNCTION", DescribeAggregates: "AGGREGATES", DescribeAggregate: "AGGREGATE", DescribeGeneric: "",
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Describe) String() string {
	return printed(func(p *printer) {
		p.put("DESCRIBE")
		p.when(s.Full, " FULL")
		p.when(s.Only, " ONLY")
		if word := describeWords[s.Kind]; word != "" {
			p.put(" ", word)
		}
		if s.Name.Name.Name != "" {
			p.put(" ")
			p.function(s.Name)
		}
		p.when(s.Internals, " WITH INTERNALS")
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *AddIdentity) String() string {
	return printed(func(p *printer) {
		p.put("ADD IDENTITY ")
		p.when(s.IfNotExists, ifNotExists)
		p.put(QuoteString(s.Identity), " TO ROLE ")
		p.role(s.Role)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropIdentity) String() string {
	return printed(func(p *printer) {
		p.put("DROP IDENTITY ")
		p.when(s.IfExists, ifExists)
		p.put(QuoteString(s.Identity))
	})
}
