// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Change is a change of roles that somebody asks for. Whether it is allowed is decided with the state that it changes,
// so that rights that were just taken away change nothing any more.
type Change interface {
	apply(s *State, w *Environment) (next *State, warnings []string, err error)
}

// World is what a change has to know beside the roles.
type Environment struct {
	// Actor is the role that asks.
	Actor string
	// Datacenters are those of the cluster.
	Datacenters []string
	// Exists reports whether there is a keyspace, a table or a function.
	Exists func(Resource) bool
	// Configured reports whether a name is a user of the configuration.
	Configured func(name string) bool
}

// Apply makes a change. The next state is s itself if there is nothing to do. Warnings are for the client.
func Apply(s *State, c Change, w *Environment) (next *State, warnings []string, err error) {
	next, warnings, err = c.apply(s, w)
	if err != nil {
		return s, nil, err
	}
	return next, warnings, nil
}

func (w *Environment) subject(s *State) *Subject { return s.Resolve(w.Actor, w.Configured(w.Actor)) }

// exists reports whether there is a resource.
func (w *Environment) exists(s *State, r Resource) bool {
	switch r.Kind {
	case RoleKind:
		return s.Role(r.Name) != nil
	case Keyspace, AllTables, Table, AllFunctionsInKeyspace, Function:
		return w.Exists(r)
	}
	return true
}

// privileged is the check of statements about roles, which has a text of its own.
func checkRolePermission(who *Subject, p Permission, on Resource) error {
	if who.May(p, on) {
		return nil
	}
	return dberr.Unauthorizedf("User %s does not have sufficient privileges to perform the requested operation",
		who.Name)
}

// Attributes are what CREATE ROLE and ALTER ROLE can give to a role; a part that is not given is nil.
type Attributes struct {
	Login, Superuser *bool
	// Hash is the bcrypt hash of the new password. Hashed says that the client gave the hash.
	Hash   *string
	Hashed bool
	// Low is the option priority: whether it is low. Options says that other OPTIONS were given, which no role has.
	Low     *bool
	Options bool
	// Datacenters and Groups are empty for ALL.
	Datacenters, Groups *[]string
}

func (a *Attributes) empty() bool { return *a == Attributes{} }

// check refuses what no role can be given.
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

// give is a role with the attributes.
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

// The bcrypt hashes that are accepted: $2a$10$ and 53 characters. Each step of the cost doubles the time that checking
// a password takes; who can set a hash must not be able to keep the processors busy for hours.
const (
	hashLength  = 60
	hashCostMax = 14
)

// CheckHash refuses what is not a bcrypt hash, and one that takes too long.
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
		return dberr.Invalidf("Invalid hashed password value. Its cost is %d, at most %d is accepted.", cost,
			hashCostMax)
	}
	return nil
}
