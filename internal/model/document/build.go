// SPDX-License-Identifier: Apache-2.0

package document

import "slices"

// SystemNames lists the system properties of every item in the order in which they are appended.
var SystemNames = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// System holds the properties of an item that the database assigns.
type System struct {
	RID, Self, ETag string // ETag includes its quotes, as in the HTTP header
	Timestamp       int64  // seconds since 1970
	LSN             int64  // LSN of the write, for change feeds; 0 omits _lsn
}

// Member returns a system property by name. It returns Undefined for other names and for _lsn.
func (s *System) Member(name string) Value {
	switch name {
	case "_rid":
		return StringValue(s.RID)
	case "_self":
		return StringValue(s.Self)
	case "_etag":
		return StringValue(s.ETag)
	case "_attachments":
		return StringValue(attachments)
	case TimeMember:
		return NumberValue(float64(s.Timestamp))
	}
	return Value{}
}

// attachments is the link to attachments, which items never have.
const attachments = "attachments/"

// AppendItem appends body with the system properties of s at its end. body must be an object without system properties.
// The body's text is copied byte for byte.
func AppendItem(dst, body []byte, s *System) []byte {
	end := len(body)
	for end > 0 && body[end-1] != '}' {
		end--
	}
	if end == 0 {
		return append(dst, body...)
	}
	end--
	for end > 0 && body[end-1] <= ' ' {
		end--
	}
	dst = append(dst, body[:end]...)
	if end > 0 && body[end-1] != '{' {
		dst = append(dst, ',')
	}
	dst = AppendString(append(dst, `"_rid":`...), s.RID)
	dst = AppendString(append(dst, `,"_self":`...), s.Self)
	dst = AppendString(append(dst, `,"_etag":`...), s.ETag)
	dst = append(dst, `,"_attachments":"`+attachments+`"`...)
	dst = AppendNumber(append(dst, `,"_ts":`...), float64(s.Timestamp))
	if s.LSN != 0 {
		dst = AppendNumber(append(dst, `,"_lsn":`...), float64(s.LSN))
	}
	return append(dst, '}')
}

// WithoutSystem returns an object without its system properties, including _lsn. All other bytes are unchanged.
func WithoutSystem(v Value) Value {
	return Without(v, systemNames...)
}

// TimeMember is the property that holds the time of an item's last change.
const TimeMember = "_ts"

var systemNames = []string{"_rid", "_self", "_etag", "_attachments", TimeMember, "_lsn"}

// IsSystem reports whether a property is assigned by the server, regardless of the value that a client sends.
func IsSystem(name string) bool { return slices.Contains(systemNames, name) }

// Without returns an object without the members with the given names. All other bytes are unchanged. If the value is
// not an object or has none of the members, it is returned unchanged.
func Without(v Value, remove ...string) Value {
	if v.kind != Object {
		return v
	}
	if v.form == plain {
		if !slices.ContainsFunc(v.tree.names, func(n string) bool { return slices.Contains(remove, n) }) {
			return v
		}
		var keep []Member
		for name, e := range v.Members() {
			if !slices.Contains(remove, name) {
				keep = append(keep, Member{name, e})
			}
		}
		return ObjectValue(keep)
	}
	s := v.text
	var out []byte
	copied, removed := 0, false
	for p := range parts(s) {
		if !slices.Contains(remove, p.name(s)) {
			continue
		}
		if !removed {
			out, removed = make([]byte, 0, len(s)), true
		}
		out = append(out, s[copied:p.begin]...)
		copied = nextItem(s, p.end)
		if copied < len(s) && s[copied] != '}' {
			continue
		}
		// If the last member was removed, the comma before it must also be removed.
		for end := len(out); end > 0; end-- {
			if out[end-1] == ',' {
				out = out[:end-1]
				break
			}
			if out[end-1] > ' ' {
				out = out[:end]
				break
			}
		}
	}
	if !removed {
		return v
	}
	return View(append(out, s[copied:]...))
}

// With returns an object with one member set. An existing member is replaced in place, and a new member is appended.
// All other bytes are unchanged. If v is not an object, it is returned unchanged. Setting a member to Undefined
// removes it.
func With(v Value, name string, member Value) Value {
	if !member.IsDefined() {
		return Without(v, name)
	}
	if v.kind != Object {
		return v
	}
	if v.form == plain {
		members := make([]Member, 0, len(v.tree.names)+1)
		for n, e := range v.Members() {
			members = append(members, Member{n, e})
		}
		return ObjectValue(append(members, Member{name, member}))
	}
	s := v.text
	out := make([]byte, 0, len(s)+len(name)+64)
	for p := range parts(s) {
		if p.name(s) == name {
			out = append(out, s[:p.end-len(memberText(p.value))]...)
			out = member.Append(out)
			return View(append(out, s[p.end:]...))
		}
	}
	end := len(s) - 1
	for end > 0 && s[end-1] <= ' ' {
		end--
	}
	out = append(out, s[:end]...)
	if s[end-1] != '{' {
		out = append(out, ',')
	}
	out = append(AppendString(out, name), ':')
	out = member.Append(out)
	return View(append(out, s[end:]...))
}

// memberText returns the JSON text of a value that was found in a larger text.
func memberText(v Value) string {
	if v.form != plain {
		return v.text
	}
	return v.String()
}
