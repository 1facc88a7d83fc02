// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// roles returns the roles for system_auth.
func (b *builder) roles() *access.State {
	if b.info.Metadata == nil {
		return &access.State{}
	}
	return b.info.Metadata.Roles
}

func fillRoles(b *builder) {
	for _, r := range b.roles().Roles() {
		if !b.wants(r.Name) {
			continue
		}
		var members []byte
		if len(r.MemberOf) > 0 {
			members = set(r.MemberOf)
		}
		b.add(values{
			"role": text(r.Name), "can_login": boolean(r.Login), "is_superuser": boolean(r.Superuser),
			"member_of":   members,
			"salted_hash": textOrNull(r.Hash),
		})
	}
}

func fillMembers(b *builder) {
	for _, r := range b.roles().Roles() {
		for _, granted := range r.MemberOf {
			b.add(values{"role": text(granted), "member": text(r.Name)})
		}
	}
}

func fillGrants(b *builder) {
	for _, r := range b.roles().Roles() {
		if !b.wants(r.Name) {
			continue
		}
		for on, p := range r.Grants {
			b.add(values{"role": text(r.Name), "resource": text(b.path(on)), "permissions": set(p.Names())})
		}
	}
}

// path returns a resource in the format of Cassandra's tables. The argument types of functions are represented by Java
// class names.
func (b *builder) path(on access.Resource) string {
	if ks := b.schema.Keyspace(on.Keyspace); ks != nil && on.Kind == access.Function {
		for _, f := range ks.FunctionsNamed(on.Name) {
			if access.OfFunction(f.Keyspace, f.Name, f.ArgTypes()) != on {
				continue
			}
			classes := make([]string, len(f.Args))
			for i, t := range f.Args {
				classes[i] = t.JavaClass()
			}
			return access.OfFunctions(f.Keyspace).Path() + "/" + f.Name + "[" + strings.Join(classes, "^") + "]"
		}
	}
	return on.Path()
}

func fillGrantees(b *builder) {
	for _, r := range b.roles().Roles() {
		for on := range r.Grants {
			b.add(values{"resource": text(b.path(on)), "role": text(r.Name)})
		}
	}
}

// fillNetworks fills the table of the data centers in which roles may log in. It omits users that are defined in the
// configuration file.
func fillNetworks(b *builder) {
	for _, r := range b.roles().Roles() {
		if !r.Configured {
			b.add(values{"role": text(access.OfRole(r.Name).Path()), "dcs": set(r.Datacenters)})
		}
	}
}

func fillGroupsOfRoles(b *builder) {
	for _, r := range b.roles().Roles() {
		if !r.Configured {
			b.add(values{"role": text(r.Name), "cidr_groups": set(r.Groups)})
		}
	}
}

// CIDRType is the type of the addresses of a CIDR group.
var CIDRType = cqltype.SetOf(cqltype.TupleOf(cqltype.Native(cqltype.Inet), cqltype.Native(cqltype.Smallint)))

func fillGroups(b *builder) {
	for _, g := range b.roles().Groups() {
		ranges := make([][]byte, len(g.CIDRs))
		for i, p := range g.CIDRs {
			ranges[i] = cidr(p)
		}
		b.add(values{"cidr_group": text(g.Name), "cidrs": CIDRType.SortedSet(ranges)})
	}
}

// cidr returns an address range as a tuple of an address and a prefix length.
func cidr(p netip.Prefix) []byte {
	out := cqltype.AppendValue(nil, p.Addr().AsSlice())
	return cqltype.AppendValue(out, binary.BigEndian.AppendUint16(nil, uint16(p.Bits())))
}

func fillIdentities(b *builder) {
	s := b.roles()
	for _, identity := range s.Identities() {
		b.add(values{"identity": text(identity), "role": text(s.Identity(identity))})
	}
}
