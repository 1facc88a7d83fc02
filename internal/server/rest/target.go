// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// kind is the resource kind of a path. Its value is the corresponding path segment.
type kind string

const (
	account    kind = ""
	databases  kind = "dbs"
	containers kind = "colls"
	items      kind = "docs"
	procedures kind = "sprocs"
	triggers   kind = "triggers"
	functions  kind = "udfs"
	conflicts  kind = "conflicts"
	ranges     kind = "pkranges"
	offers     kind = "offers"
	users      kind = "users"
	permits    kind = "permissions"
	clientKeys kind = "clientencryptionkeys"
	// byKey is an operation on all items of a partition key value.
	byKey kind = "partitionkeydelete"
)

// children maps a kind to its child kinds.
var children = map[kind][]kind{
	account:    {databases, offers},
	databases:  {containers, users, clientKeys},
	containers: {items, procedures, triggers, functions, conflicts, ranges},
	users:      {permits},
}

// pathMax is the maximum size of an encoded path in bytes. The size suffices for the longest percent-encoded item ID
// and the names that precede it.
const pathMax = 8 << 10

// target is the resource of a request's path.
type target struct {
	kind kind
	// feed means that the path ends with a kind and refers to all resources of the parent.
	feed bool
	// ids contains the names or resource IDs of the ancestors. Unless the target is a feed, it also contains the name
	// or ID of the resource itself.
	ids []string
	// kinds contains the kinds of ids.
	kinds []kind

	idRoom   [3]string
	kindRoom [3]kind
}

// database, container, and id return the corresponding part of the path, or an empty string.
func (t *target) database() string  { return t.of(databases) }
func (t *target) container() string { return t.of(containers) }

func (t *target) of(k kind) string {
	for i, is := range t.kinds {
		if is == k {
			return t.ids[i]
		}
	}
	return ""
}

func (t *target) id() string {
	if t.feed || len(t.ids) == 0 {
		return ""
	}
	return t.ids[len(t.ids)-1]
}

// parseTarget parses an encoded path. If the path is invalid, it returns nil.
func parseTarget(path string) *target {
	if len(path) > pathMax {
		return nil
	}
	t := &target{}
	t.ids, t.kinds = t.idRoom[:0], t.kindRoom[:0]
	rest := strings.Trim(path, "/")
	for rest != "" {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		next := kind(strings.ToLower(segment))
		if t.kind == containers && next == "operations" && strings.EqualFold(rest, string(byKey)) {
			t.kind, t.feed = byKey, true
			return t
		}
		if !slices.Contains(children[t.kind], next) {
			return nil
		}
		t.kind, t.feed = next, rest == ""
		if t.feed {
			return t
		}
		if len(children[next]) > 0 {
			segment, rest, _ = strings.Cut(rest, "/")
		} else {
			segment, rest = rest, "" // clients may send an unencoded slash in an ID
		}
		id, err := url.PathUnescape(segment)
		if err != nil || id == "" {
			return nil
		}
		t.ids, t.kinds = append(t.ids, id), append(t.kinds, next)
		rest = strings.TrimLeft(rest, "/")
	}
	return t
}

// appendLink appends the unescaped path, which consists of names or resource IDs. It omits leading and trailing
// slashes. For a feed, it appends the path of the parent.
func (t *target) appendLink(dst []byte) []byte {
	for i, id := range t.ids {
		if i > 0 {
			dst = append(dst, '/')
		}
		dst = append(append(append(dst, t.kinds[i]...), '/'), id...)
	}
	return dst
}

// signedMax is the number of possible signed forms of a target.
const signedMax = 4

// appendSigned appends signed form i of the target. i is less than signedMax. The form consists of the kind and the
// link. If the link consists of resource IDs, the form contains the last ID in lower case instead. If the form does
// not exist, it returns nil.
func (t *target) appendSigned(dst []byte, i int) []byte {
	k := t.kind
	switch {
	case k == byKey && i < 2:
		k = containers
	case k == byKey:
		k = "partitionkey"
	case i > 1:
		return nil
	}
	dst = append(append(dst, k...), '\n')
	if i%2 == 0 {
		if t.kind == offers && !t.feed {
			return nil
		}
		return t.appendLink(dst)
	}
	if len(t.ids) == 0 || t.kind != offers && !isRID(t.ids[0]) {
		return nil
	}
	return append(dst, strings.ToLower(t.ids[len(t.ids)-1])...)
}

// isRID reports whether the name of a database may be a resource ID. Clients use the same rule.
func isRID(s string) bool {
	if len(s) != 8 {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "-", "/"))
	return err == nil
}
