// SPDX-License-Identifier: Apache-2.0

package access

// The names of an account's keys, as Azure Cosmos DB has them. Who shows one is no role: what a key allows is fixed.
const (
	// PrimaryKey and SecondaryKey allow everything on data and schema: there are two so that one can be replaced while
	// clients use the other.
	PrimaryKey   = "primary"
	SecondaryKey = "secondary"
	// ReadOnlyKey allows reads and queries.
	ReadOnlyKey = "read-only"
)

// OfKey is what the holder of an account's key is allowed; nothing for an unknown name. It does not depend on the
// roles, has no say about them, and does not reach what only a superuser does, such as the hashes of passwords.
func AccountKeySubject(name string) *Subject {
	out := &Subject{Name: name, Login: true, Roles: []string{name}, grants: map[Resource]Permissions{}}
	spaces, functions := Resource{Kind: AllKeyspaces}, Resource{Kind: AllFunctions}
	switch name {
	case PrimaryKey, SecondaryKey:
		out.grants[spaces], out.grants[functions] = spaces.Applicable(), functions.Applicable()
	case ReadOnlyKey:
		// Not EXECUTE: a procedure may write.
		out.grants[spaces] = Of(Select)
	}
	out.index()
	return out
}
