// SPDX-License-Identifier: Apache-2.0

// Package dbresource describes the resources of Cosmos DB databases other than containers: users, their permissions,
// and client encryption keys.
//
// A State holds the resources of all databases and never changes. It is part of the cluster metadata, which stores one
// record for each resource. Start reading at Resource and State.
package dbresource

import (
	"cmp"
	"errors"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// Kind is the kind of a resource.
type Kind uint8

// These are the kinds.
const (
	User Kind = 1 + iota
	Permission
	EncryptionKey
)

// Resource is a user, a permission, or a client encryption key. It must not be changed.
type Resource struct {
	Parent
	ID string
	// Number is unique among the resources of a cluster and is never reused.
	Number uint32
	// At is the time at which the resource was created or last replaced, in seconds since the epoch. Revision is the
	// version of the metadata with that change.
	At       int64
	Revision uint64
	// Nonce is a random number that changes whenever the resource is replaced. Resource tokens contain the nonce of
	// their permission.
	Nonce uint64
	// Definition is the JSON object that the client sent, without system properties.
	Definition []byte
	// Grant is the access that a permission grants. It is the zero value for other kinds.
	Grant Grant

	rest []byte // encoded fields of later versions
}

// Parent identifies the list to which a resource belongs. IDs are unique in a list.
type Parent struct {
	Kind Kind
	// Database is the number of the database. Owner is the number of the user to which a permission belongs. It is 0
	// for other kinds.
	Database, Owner uint32
}

// Grant is the access that a permission grants.
type Grant struct {
	// Container is the resource ID of the container. If another container is created with the name of a dropped
	// container, a permission on the dropped container does not apply to it.
	Container string
	// Kind is the path segment of a resource in the container: docs, sprocs, triggers, or udfs. It is empty if the
	// permission applies to the whole container.
	Kind string
	// Target is the resource in the container: the ID of an item, the resource ID of an item if ByRID is set, or the
	// resource ID of a script.
	Target string
	ByRID  bool
	// Key is an encoded partition key (epk.AppendKey) with KeyValues values, or a prefix of a partition key, to which
	// the permission is limited. KeyValues is 0 if the permission applies to all partition keys.
	Key       string
	KeyValues int
	// All means that the permission allows reads and writes. Otherwise, it allows only reads.
	All bool
}

// SameResource reports whether two grants apply to the same resource, in any mode.
func (g Grant) SameResource(o Grant) bool {
	g.All = o.All
	return g == o
}

// format is the format of a record.
const format = 1

// ErrMalformed means that a record is damaged.
var ErrMalformed = errors.New("malformed record of a database resource")

// Append appends the encoded resource without its number.
func (r *Resource) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, format))
	w.Byte(byte(r.Kind))
	w.Uint(uint64(r.Database))
	w.Uint(uint64(r.Owner))
	w.Text(r.ID)
	w.Int(r.At)
	w.Uint(r.Revision)
	w.Fixed(r.Nonce)
	w.Bytes(r.Definition)
	if r.Kind == Permission {
		g := &r.Grant
		w.Text(g.Container)
		w.Text(g.Kind)
		w.Text(g.Target)
		w.Flag(g.ByRID)
		w.Text(g.Key)
		w.Uint(uint64(g.KeyValues))
		w.Flag(g.All)
	}
	w.Raw(r.rest)
	w.EndFields()
	return w
}

// Decode decodes a resource written by Append, in this version or a later version of the same format. Errors are
// ErrMalformed or *feature.Newer.
func Decode(number uint32, src []byte) (*Resource, error) {
	if len(src) == 0 || src[0] == 0 {
		return nil, ErrMalformed
	}
	if src[0] > format {
		return nil, &feature.Newer{What: "a database resource", Unit: "format", Has: uint64(src[0]), Newest: format}
	}
	v := codec.NewReader(src[1:], ErrMalformed)
	r := &Resource{Number: number}
	kind := v.Byte()
	if kind == 0 || kind > byte(EncryptionKey) {
		return nil, &feature.Newer{What: "a database resource", Unit: "kind", Has: uint64(kind),
			Newest: uint64(EncryptionKey)}
	}
	r.Parent = Parent{Kind(kind), v.Uint32(), v.Uint32()}
	r.ID, r.At, r.Revision, r.Nonce = v.Text(), v.Int(), v.Uint(), v.Fixed()
	r.Definition = append([]byte{}, v.Bytes()...)
	if r.Kind == Permission {
		r.Grant = Grant{Container: v.Text(), Kind: v.Text(), Target: v.Text(), ByRID: v.Flag(), Key: v.Text(),
			KeyValues: int(v.UpTo(keyValuesMax)), All: v.Flag()}
	}
	refused := uint64(0)
	var rest codec.Writer
	for f := v.Field(0); f.Number != 0; f = v.Field(f.Number) {
		if f.Must {
			refused = cmp.Or(refused, f.Number)
		}
		rest.Field(f.Number, f.Must, f.Value)
	}
	r.rest = rest
	switch {
	case v.End() != nil:
		return nil, ErrMalformed
	case refused != 0:
		return nil, &feature.Newer{What: "a database resource", Unit: "field", Has: refused}
	}
	return r, nil
}

// keyValuesMax is an upper bound of the number of values of a partition key.
const keyValuesMax = 100
