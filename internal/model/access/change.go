// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Change is a requested change of roles. It is authorized against the state that it changes, so permissions that have
// just been revoked have no effect.
type Change interface {
	apply(s *State, w *Environment) (next *State, warnings []string, err error)
}

// Environment holds the information that a change requires in addition to the roles.
type Environment struct {
	// Actor is the role that requests the change.
	Actor string
	// Datacenters lists the data centers of the cluster.
	Datacenters []string
	// Exists reports whether a keyspace, a table, or a function exists.
	Exists     func(Resource) bool
	Configured ConfiguredUsers
}

// ConfiguredUsers maps the users in a node's configuration to the bcrypt hashes of their passwords.
type ConfiguredUsers map[string]string

// Has reports whether the configuration contains a user.
func (u ConfiguredUsers) Has(name string) bool {
	_, ok := u[name]
	return ok
}

// Apply applies a change. If nothing changes, the returned state is s itself. The warnings are for the client.
func Apply(s *State, c Change, w *Environment) (next *State, warnings []string, err error) {
	next, warnings, err = c.apply(s, w)
	if err != nil {
		return s, nil, err
	}
	return next, warnings, nil
}

func (w *Environment) subject(s *State) *Subject {
	return s.Resolve(w.Actor, w.Configured.Has(w.Actor))
}

// exists reports whether a resource exists.
func (w *Environment) exists(s *State, r Resource) bool {
	switch r.Kind {
	case RoleKind:
		return s.Role(r.Name) != nil
	case Keyspace, AllTables, Table, AllFunctionsInKeyspace, Function:
		return w.Exists(r)
	}
	return true
}

// checkRolePermission checks permissions for statements about roles. These statements have a separate error text.
func checkRolePermission(who *Subject, p Permission, on Resource) error {
	if who.May(p, on) {
		return nil
	}
	return dberr.Unauthorizedf("User %s does not have sufficient privileges to perform the requested operation",
		who.Name)
}

// Attributes are the attributes that CREATE ROLE and ALTER ROLE can assign to a role. An unspecified attribute is nil.
type Attributes struct {
	Login, Superuser *bool
	// Hash is the bcrypt hash of the new password. Hashed means that the client sent the hash instead of the password.
	Hash   *string
	Hashed bool
	// Low is the value of the option priority. Options reports whether the statement specified other OPTIONS, which
	// roles do not support.
	Low     *bool
	Options bool
	// Datacenters and Groups are empty if the statement specifies ALL.
	Datacenters, Groups *[]string
}

func (a *Attributes) empty() bool { return *a == Attributes{} }

// check rejects attributes that no role can have.
func (a *Attributes) check(s *State, w *Environment) error {
	if a.Options {
		return dberr.Invalidf("org.apache.cassandra.auth.CassandraRoleManager doesn't support OPTIONS")
	}
	if a.Hash != nil && a.Hashed {
		if err := CheckHash(*a.Hash); err != nil {
			return err
		}
	}
	if a.Datacenters != nil {
		for _, dc := range *a.Datacenters {
			if !slices.Contains(w.Datacenters, dc) {
				return dberr.Invalidf("Invalid value(s) for DATACENTERS '[%s]',All values must be valid datacenters",
					strings.Join(*a.Datacenters, ", "))
			}
		}
	}
	if a.Groups == nil {
		return nil
	}
	var unknown []string
	for _, g := range *a.Groups {
		if s.Group(g) == nil {
			unknown = append(unknown, g)
		}
	}
	if len(unknown) > 0 {
		var known []string
		for _, g := range s.Groups() {
			known = append(known, g.Name)
		}
		return dberr.Invalidf("Invalid CIDR group(s): [%s]. Available CIDR Groups are: [%s]",
			strings.Join(unknown, ", "), strings.Join(known, ", "))
	}
	return nil
}

// applyTo returns a copy of r with the attributes.
func (a *Attributes) applyTo(r Role) *Role {
	if a.Login != nil {
		r.Login = *a.Login
	}
	if a.Superuser != nil {
		r.Superuser = *a.Superuser
	}
	if a.Hash != nil {
		r.Hash = *a.Hash
	}
	if a.Low != nil {
		r.Low = *a.Low
	}
	if a.Datacenters != nil {
		r.Datacenters = sorted(*a.Datacenters)
	}
	if a.Groups != nil {
		r.Groups = sorted(*a.Groups)
	}
	return &r
}

// A valid bcrypt hash consists of $2a$10$ and 53 more characters. Each increment of the cost doubles the time that is
// needed to check a password. Without the limit, a user who can set a hash could block the processors for hours.
const (
	hashLength  = 60
	hashCostMax = 14
)

// CheckHash rejects a hash that is not a bcrypt hash or that takes too long to check.
func CheckHash(hash string) error {
	invalid := dberr.Invalidf("Invalid hashed password value. Please use jBcrypt.")
	if len(hash) != hashLength || !slices.Contains([]string{"$2a$", "$2b$", "$2x$", "$2y$"}, hash[:4]) ||
		hash[6] != '$' {
		return invalid
	}
	for i := 7; i < len(hash); i++ {
		c := hash[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '/' {
			return invalid
		}
	}
	tens, ones := hash[4]-'0', hash[5]-'0'
	if tens > 3 || ones > 9 || tens == 0 && ones < 4 {
		return invalid
	}
	if cost := 10*tens + ones; cost > hashCostMax {
		return dberr.Invalidf("Invalid hashed password value. Its cost is %d, but the maximum is %d.", cost,
			hashCostMax)
	}
	return nil
}
