// SPDX-License-Identifier: Apache-2.0

package access

// RoleID identifies the record of a role.
type RoleID [16]byte

// RoleVersion identifies a record and the state of its credentials. The zero value is the version of a role without a
// record.
type RoleVersion struct {
	ID RoleID
	// Credentials is Role.Credentials plus one. The version of a record is therefore never the zero value.
	Credentials uint64
}

// Login is the result of a successful authentication. A login consists of a name and the record that had this name at
// the time of the login. The name alone is not sufficient, because it can be assigned to another role after DROP ROLE.
type Login struct {
	Role    string
	Version RoleVersion
}

// Version returns the version of a role, or the zero value for nil.
func (r *Role) Version() RoleVersion {
	if r == nil {
		return RoleVersion{}
	}
	return RoleVersion{ID: r.ID, Credentials: r.Credentials + 1}
}

// HasEnded reports whether a session that started with login l has ended, given the current subject of the role's
// name. A session ends if the role has been dropped, even if it has been created again. If strict is true, a change of
// the password or of LOGIN also ends a session. Sessions of users in the configuration do not end.
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
