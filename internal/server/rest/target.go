// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// kind is what a path is about, by its segment in paths.
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
	// byKey is what is done to all items of a partition key value.
	byKey kind = "partitionkeydelete"
)

// children are the kinds that live in another.
var children = map[kind][]kind{
	account:    {databases, offers},
	databases:  {containers, users, clientKeys},
	containers: {items, procedures, triggers, functions, conflicts, ranges},
	users:      {permits},
}

// pathMax bounds a path, in bytes as sent: the longest item id, percent-encoded, and room for the names above it.
const pathMax = 8 << 10

// target is what a request's path names.
type target struct {
	kind kind
	// feed says that the path ends with the kind, so it is about all that its parent has.
	feed bool
	// ids are the names, or resource ids, of what is above, and of the thing itself unless it is a feed.
	ids []string
	// kinds go with ids.
	kinds []kind

	idRoom   [3]string
	kindRoom [3]kind
}

// database, container and id are parts of the path, empty where it has none.
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

// parseTarget reads a path as it was sent. It is nil if there is nothing of that form.
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
			segment, rest = rest, "" // clients that do not encode a slash in an id mean it
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

// appendLink appends the path by names or resource ids, unescaped, without slashes at its ends: of the thing, or of the
// parent for a feed.
func (t *target) appendLink(dst []byte) []byte {
	for i, id := range t.ids {
		if i > 0 {
			dst = append(dst, '/')
		}
		dst = append(append(append(dst, t.kinds[i]...), '/'), id...)
	}
	return dst
}

// signedMax is in how many ways a target may be signed.
const signedMax = 4

// appendSigned appends what a signature says of the target: its kind and its link, or, where that is made of resource
// ids, the last of them in lower case. Which of the ways it is says i, from 0 to signedMax; nil if there is none.
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

// isRID reports whether a name of a database may be a resource id: clients tell them apart by this form.
func isRID(s string) bool {
	if len(s) != 8 {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "-", "/"))
	return err == nil
}
