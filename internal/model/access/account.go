// SPDX-License-Identifier: Apache-2.0

package access

// These are the names of an account's keys, as in Azure Cosmos DB. A key is not a role, because its permissions are
// fixed.
const (
	// PrimaryKey and SecondaryKey allow all operations on data and schema. With two keys, an operator can replace one
	// key while clients use the other.
	PrimaryKey   = "primary"
	SecondaryKey = "secondary"
	// ReadOnlyKey allows reads and queries.
	ReadOnlyKey = "read-only"
)

// AccountKeySubject returns the permissions of the holder of an account key. If the name is unknown, the subject has
// no permissions. The permissions do not depend on roles. An account key does not permit role management or operations
// that are reserved for superusers, such as reading password hashes.
func AccountKeySubject(name string) *Subject {
	out := &Subject{Name: name, Login: true, Roles: []string{name}, grants: map[Resource]Permissions{}}
	spaces, functions := Resource{Kind: AllKeyspaces}, Resource{Kind: AllFunctions}
	switch name {
	case PrimaryKey, SecondaryKey:
		out.grants[spaces], out.grants[functions] = spaces.Applicable(), functions.Applicable()
	case ReadOnlyKey:
		// EXECUTE is not included, because a procedure may write.
		out.grants[spaces] = Of(Select)
	}
	out.index()
	return out
}
