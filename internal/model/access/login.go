// SPDX-License-Identifier: Apache-2.0

package access

// RoleID identifies the record of a role.
type RoleID [16]byte

// RoleVersion identifies a record and the state of its credentials. Its zero value is that of a role without a record.
type RoleVersion struct {
	ID RoleID
	// Credentials is Role.Credentials plus one, so that no record has the zero value.
	Credentials uint64
}

// Login is the result of a successful authentication: a name, and the record that the name had at that time. The name
// alone is not enough: after DROP ROLE it may be given to another role.
type Login struct {
	Role    string
	Version RoleVersion
}

// Version returns the version of a role; the zero value for nil.
func (r *Role) Version() RoleVersion {
	if r == nil {
		return RoleVersion{}
	}
	return RoleVersion{ID: r.ID, Credentials: r.Credentials + 1}
}

// Ends reports whether a session that began with a login has ended for the present subject of its name: the role was
// dropped, and perhaps created again. If strict is true, a change of the password or of LOGIN ends a session, too.
// Sessions of users of the configuration do not end.
func (l *Login) HasEnded(present *Subject, strict bool) bool {
	v := present.version
	switch {
	case present.configured:
		return false
	case v == RoleVersion{} || v.ID != l.Version.ID:
		return true
	}
	return strict && v.Credentials != l.Version.Credentials
}
