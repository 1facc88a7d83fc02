// SPDX-License-Identifier: Apache-2.0

package access

import "strings"

// Kind is the kind of a resource. The numbers are stored in records.
type Kind uint8

// These are the kinds of resources, with the fields of Resource that they use.
const (
	AllKeyspaces           Kind = iota + 1
	Keyspace                    // Keyspace
	AllTables                   // Keyspace
	Table                       // Keyspace, Name
	AllRoles                    //
	RoleKind                    // Name
	AllFunctions                //
	AllFunctionsInKeyspace      // Keyspace
	Function                    // Keyspace, Name, Args; see OfProcedure
	AllMBeans                   //
	MBean                       // Name, which may be a pattern

	kindCount = iota + 1
)

// Resource is the object of a permission. It is comparable and is the key of grants.
type Resource struct {
	Kind           Kind
	Keyspace, Name string
	// Args lists the types of a function's arguments in CQL notation, separated by ", ".
	Args string
}

// OfKeyspace returns the resource of a keyspace and all its contents except functions.
func OfKeyspace(name string) Resource { return Resource{Kind: Keyspace, Keyspace: name} }

// OfTables returns the resource of all tables in a keyspace.
func OfTables(keyspace string) Resource { return Resource{Kind: AllTables, Keyspace: keyspace} }

// OfTable returns the resource of a table.
func OfTable(keyspace, name string) Resource {
	return Resource{Kind: Table, Keyspace: keyspace, Name: name}
}

// OfRole returns the resource of a role.
func OfRole(name string) Resource { return Resource{Kind: RoleKind, Name: name} }

// OfFunctions returns the resource of all functions in a keyspace.
func OfFunctions(keyspace string) Resource {
	return Resource{Kind: AllFunctionsInKeyspace, Keyspace: keyspace}
}

// OfProcedure returns the resource of a container's stored procedure. The resource is a function without arguments and
// with the name table.id. A Cassandra function cannot have such a name.
func OfProcedure(keyspace, table, id string) Resource {
	return Resource{Kind: Function, Keyspace: keyspace, Name: table + "." + id}
}

// Procedure is the inverse of OfProcedure. ok is false for any other resource.
func (r Resource) Procedure() (table, id string, ok bool) {
	if r.Kind != Function || r.Args != "" {
		return "", "", false
	}
	return strings.Cut(r.Name, ".")
}

// OfFunction returns the resource of a function or aggregate. args lists the types of the arguments in CQL notation.
func OfFunction(keyspace, name string, args []string) Resource {
	return Resource{Kind: Function, Keyspace: keyspace, Name: name, Args: strings.Join(args, ", ")}
}

// Parent returns the resource that directly contains r, or false if no such resource exists. A permission on a
// resource applies to all resources that it contains.
func (r Resource) Parent() (Resource, bool) {
	switch r.Kind {
	case Table:
		return OfTables(r.Keyspace), true
	case AllTables:
		return OfKeyspace(r.Keyspace), true
	case Keyspace:
		// A grant on all keyspaces does not include the server's own keyspaces. Otherwise, the grant would expose all
		// password hashes.
		return Resource{Kind: AllKeyspaces}, !protected(r.Keyspace)
	case RoleKind:
		return Resource{Kind: AllRoles}, true
	case Function:
		return OfFunctions(r.Keyspace), true
	case AllFunctionsInKeyspace:
		return Resource{Kind: AllFunctions}, true
	case MBean:
		return Resource{Kind: AllMBeans}, true
	}
	return Resource{}, false
}

// Within returns the resource and all resources that contain it. The outermost resource is first.
func (r Resource) Within() []Resource {
	chain := []Resource{r}
	for parent, ok := r.Parent(); ok; parent, ok = parent.Parent() {
		chain = append([]Resource{parent}, chain...)
	}
	return chain
}

// String returns the resource in the notation of Cassandra's messages, for example <table ks.t>.
func (r Resource) String() string {
	switch r.Kind {
	case AllKeyspaces:
		return "<all keyspaces>"
	case Keyspace:
		return "<keyspace " + r.Keyspace + ">"
	case AllTables:
		return "<all tables in " + r.Keyspace + ">"
	case Table:
		return "<table " + r.Keyspace + "." + r.Name + ">"
	case AllRoles:
		return "<all roles>"
	case RoleKind:
		return "<role " + r.Name + ">"
	case AllFunctions:
		return "<all functions>"
	case AllFunctionsInKeyspace:
		return "<all functions in " + r.Keyspace + ">"
	case Function:
		if _, _, ok := r.Procedure(); ok {
			return "<procedure " + r.Keyspace + "." + r.Name + ">"
		}
		return "<function " + r.Keyspace + "." + r.Name + "(" + r.Args + ")>"
	case AllMBeans:
		return "<all mbeans>"
	case MBean:
		return "<mbean " + r.Name + ">"
	}
	return ""
}

// Path returns the name under which Cassandra stores the resource, for example data/ks/t. Cassandra lists resources in
// the order of their paths.
func (r Resource) Path() string {
	switch r.Kind {
	case AllKeyspaces:
		return "data"
	case Keyspace:
		return "data/" + r.Keyspace
	case AllTables:
		return "data/" + r.Keyspace + "/*"
	case Table:
		return "data/" + r.Keyspace + "/" + r.Name
	case AllRoles:
		return "roles"
	case RoleKind:
		return "roles/" + r.Name
	case AllFunctions:
		return "functions"
	case AllFunctionsInKeyspace:
		return "functions/" + r.Keyspace
	case Function:
		return "functions/" + r.Keyspace + "/" + r.Name + "[" + strings.ReplaceAll(r.Args, ", ", "^") + "]"
	case AllMBeans:
		return "mbean"
	case MBean:
		return "mbean/" + r.Name
	}
	return ""
}

const data = Permissions(1<<Alter | 1<<Drop | 1<<Select | 1<<Modify | 1<<Authorize | 1<<Unmask | 1<<SelectMasked)

// Applicable returns the permissions that can be granted on the resource.
func (r Resource) Applicable() Permissions {
	switch r.Kind {
	case AllKeyspaces, Keyspace, AllTables:
		return data | Of(Create)
	case Table:
		return data
	case AllRoles:
		return Of(Create, Alter, Drop, Authorize, Describe)
	case RoleKind:
		return Of(Alter, Drop, Authorize, Describe)
	case AllFunctions, AllFunctionsInKeyspace:
		return Of(Create, Alter, Drop, Authorize, Execute)
	case Function:
		return Of(Alter, Drop, Authorize, Execute)
	case AllMBeans, MBean:
		return Of(Select, Modify, Authorize, Describe, Execute)
	}
	return 0
}

// Class returns Cassandra's name of the resource's type.
func (r Resource) Class() string {
	switch r.Kind {
	case AllRoles, RoleKind:
		return "RoleResource"
	case AllFunctions, AllFunctionsInKeyspace, Function:
		return "FunctionResource"
	case AllMBeans, MBean:
		return "JMXResource"
	}
	return "DataResource"
}

// protected reports whether a keyspace belongs to the server or is presented as a keyspace of the server.
func protected(keyspace string) bool {
	switch keyspace {
	case "system", "system_schema", "system_auth", "system_distributed", "system_traces":
		return true
	}
	return false
}

// grantable returns the permissions that can be granted on the resource.
func (r Resource) grantable() Permissions {
	switch r.Kind {
	case Keyspace, AllTables, Table:
		if protected(r.Keyspace) {
			return Of(Select, Unmask, SelectMasked)
		}
	}
	return AllPermissions
}

// Readable reports whether every role may read the whole table. Drivers require access to such tables. In
// system_traces, a role may read its own traces, and the session checks this rule.
func Readable(keyspace, table string) bool {
	switch keyspace {
	case "system_schema", "system_virtual_schema":
		return true
	case "system":
		switch table {
		case "local", "peers", "peers_v2", "size_estimates", "table_estimates":
			return true
		}
	}
	return false
}
