// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// ErrMalformed reports that bytes are not a valid record.
var ErrMalformed = errors.New("malformed record")

// These are the key prefixes of the records. A name follows each prefix.
const (
	roleKey     = "role/"
	groupKey    = "cidr/"
	identityKey = "identity/"
)

// Prefixes lists the key prefixes of the records.
var Prefixes = [...]string{roleKey, groupKey, identityKey}

// roleFormat is the format of a role record and a group record.
const roleFormat = 1

// These are the limits of a role record.
const (
	memberMax = 10_000
	grantMax  = 1_000_000
)

// Records encodes the state as one record per role, CIDR group, and identity.
func (s *State) Records() map[string][]byte {
	out := make(map[string][]byte, len(s.roles)+len(s.groups)+len(s.identities))
	for name, r := range s.roles {
		out[roleKey+name] = r.Append(nil)
	}
	for name, g := range s.groups {
		out[groupKey+name] = g.Append(nil)
	}
	for identity, role := range s.identities {
		out[identityKey+identity] = append([]byte{roleFormat}, role...)
	}
	return out
}

// Changed returns the records that differ between two states that share their unchanged parts. The value of a deleted
// record is nil.
func Changed(old, next *State) map[string][]byte {
	out := map[string][]byte{}
	if old == next {
		return out
	}
	for name, r := range next.roles {
		if old.roles[name] != r {
			out[roleKey+name] = r.Append(nil)
		}
	}
	addDeleted(out, roleKey, old.roles, next.roles)
	for name, g := range next.groups {
		if old.groups[name] != g {
			out[groupKey+name] = g.Append(nil)
		}
	}
	addDeleted(out, groupKey, old.groups, next.groups)
	for identity, role := range next.identities {
		if old.identities[identity] != role {
			out[identityKey+identity] = append([]byte{roleFormat}, role...)
		}
	}
	addDeleted(out, identityKey, old.identities, next.identities)
	return out
}

func addDeleted[V any](out map[string][]byte, prefix string, old, next map[string]V) {
	for name := range old {
		if _, ok := next[name]; !ok {
			out[prefix+name] = nil
		}
	}
}

// WithRecords applies changed records and returns the resulting state. A nil value deletes a record. Records of
// unknown kinds are ignored. On failure, it returns ErrMalformed or a *feature.Newer.
func (s *State) WithRecords(records map[string][]byte) (*State, error) {
	if len(records) == 0 {
		return s, nil
	}
	next := &State{roles: cloned(s.roles), groups: cloned(s.groups), identities: cloned(s.identities)}
	for key, value := range records {
		kind, name, _ := strings.Cut(key, "/")
		var err error
		switch kind + "/" {
		case roleKey:
			err = decodeInto(next.roles, name, value, DecodeRole)
		case groupKey:
			err = decodeInto(next.groups, name, value, DecodeGroup)
		case identityKey:
			err = decodeInto(next.identities, name, value, decodeIdentity)
		}
		if err != nil {
			return nil, err
		}
	}
	return next, nil
}

func cloned[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

func decodeInto[V any](m map[string]V, name string, value []byte, decode func(name string, src []byte) (V,
	error)) error {
	if value == nil {
		delete(m, name)
		return nil
	}
	v, err := decode(name, value)
	if err == nil {
		m[name] = v
	}
	return err
}

// These are the flags of a role record.
const (
	flagLogin = 1 << iota
	flagSuperuser
	flagConfigured
)

// These are the fields of a role record. All fields are optional.
const (
	roleLow         = 1 // the role has low priority
	roleID          = 2 // Role.ID
	roleCredentials = 3 // Role.Credentials
)

// Append appends the encoded role without its name. The encoding consists of the format, the flags, the hash, the
// lists, the grants in ascending order of their paths, and the fields. Fields from later builds are last.
func (r *Role) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, roleFormat))
	flags := uint64(0)
	for i, on := range []bool{r.Login, r.Superuser, r.Configured} {
		if on {
			flags |= 1 << i
		}
	}
	w.Uint(flags)
	w.Text(r.Hash)
	for _, list := range [][]string{r.MemberOf, r.Datacenters, r.Groups} {
		w.Uint(uint64(len(list)))
		for _, s := range list {
			w.Text(s)
		}
	}
	w.Uint(uint64(len(r.Grants)))
	for _, on := range SortedResources(r.Grants) {
		w.Byte(byte(on.Kind))
		w.Text(on.Keyspace)
		w.Text(on.Name)
		w.Text(on.Args)
		w.Uint(uint64(r.Grants[on]))
	}
	if r.Low {
		w.Field(roleLow, false, nil)
	}
	if r.ID != (RoleID{}) {
		w.Field(roleID, false, r.ID[:])
	}
	if r.Credentials > 0 {
		w.Field(roleCredentials, false, binary.AppendUvarint(nil, r.Credentials))
	}
	w.Raw(r.rest)
	w.EndFields()
	return w
}

// SortedResources returns the resources of grants in the order of their paths.
func SortedResources(grants map[Resource]Permissions) []Resource {
	return slices.SortedFunc(maps.Keys(grants), func(a, b Resource) int { return compare(a.Path(), b.Path()) })
}

// DecodeRole decodes the output of Role.Append. The output may come from this build or from a later build with the
// same format.
func DecodeRole(name string, src []byte) (*Role, error) {
	r, err := begin("a role record", src)
	if err != nil {
		return nil, err
	}
	role := &Role{Name: name}
	flags := r.Uint()
	role.Login, role.Superuser, role.Configured = flags&flagLogin != 0, flags&flagSuperuser != 0,
		flags&flagConfigured != 0
	role.Hash = r.Text()
	for _, list := range []*[]string{&role.MemberOf, &role.Datacenters, &role.Groups} {
		count := r.Count(1)
		if count > memberMax {
			return nil, ErrMalformed
		}
		for range count {
			*list = append(*list, r.Text())
		}
	}
	count := r.Count(5)
	if count > grantMax {
		return nil, ErrMalformed
	}
	role.Grants = make(map[Resource]Permissions, count)
	newer := uint64(0)
	for range count {
		on := Resource{Kind: Kind(r.Byte()), Keyspace: r.Text(), Name: r.Text(), Args: r.Text()}
		if on.Kind == 0 || on.Kind >= kindCount {
			newer = uint64(on.Kind)
		}
		role.Grants[on] = Permissions(r.Uint32())
	}
	var kept codec.Writer
	refused := uint64(0)
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		switch {
		case f.Number == roleLow:
			role.Low = true
			continue
		case f.Number == roleID && len(f.Value) == len(role.ID):
			role.ID = RoleID(f.Value)
			continue
		case f.Number == roleCredentials:
			role.Credentials, _ = binary.Uvarint(f.Value)
			continue
		case f.Must && refused == 0:
			refused = f.Number
		}
		kept.Field(f.Number, f.Must, f.Value)
	}
	role.rest = kept
	return role, end(&r, "a role record", refused, newer)
}

// Append appends the encoded group without its name. The encoding consists of the format, the ranges, and an empty
// list of fields.
func (g *Group) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, roleFormat))
	w.Uint(uint64(len(g.CIDRs)))
	for _, p := range g.CIDRs {
		w.Bytes(p.Addr().AsSlice())
		w.Byte(byte(p.Bits()))
	}
	w.EndFields()
	return w
}

// DecodeGroup decodes the output of Group.Append.
func DecodeGroup(name string, src []byte) (*Group, error) {
	r, err := begin("a CIDR group record", src)
	if err != nil {
		return nil, err
	}
	g := &Group{Name: name}
	for range r.Count(2) {
		addr, ok := netip.AddrFromSlice(r.Bytes())
		p := netip.PrefixFrom(addr, int(r.Byte()))
		if !ok || !p.IsValid() {
			return nil, ErrMalformed
		}
		g.CIDRs = append(g.CIDRs, p)
	}
	_, refused := r.KeepFields()
	return g, end(&r, "a CIDR group record", refused, 0)
}

func decodeIdentity(_ string, src []byte) (string, error) {
	if _, err := begin("an identity record", src); err != nil {
		return "", err
	}
	return string(src[1:]), nil
}

func begin(what string, src []byte) (codec.Reader, error) {
	switch {
	case len(src) == 0 || src[0] < roleFormat:
		return codec.Reader{}, ErrMalformed
	case src[0] > roleFormat:
		return codec.Reader{}, &feature.Newer{What: what, Unit: "format", Has: uint64(src[0]), Newest: roleFormat}
	}
	return codec.NewReader(src[1:], ErrMalformed), nil
}

func end(r *codec.Reader, what string, field, kind uint64) error {
	switch {
	case r.End() != nil:
		return ErrMalformed
	case field != 0:
		return &feature.Newer{What: what, Unit: "field", Has: field}
	case kind != 0:
		return &feature.Newer{What: what, Unit: "kind of resource", Has: kind, Newest: kindCount - 1}
	}
	return nil
}
