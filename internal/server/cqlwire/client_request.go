// SPDX-License-Identifier: Apache-2.0

package cqlwire

import "sort"

// This file encodes requests for clients, tools, and tests. The functions append bodies. A Writer creates envelopes.

// AppendStartup appends the body of STARTUP.
func AppendStartup(dst []byte, s Startup) []byte {
	keys := make([]string, 0, len(s))
	for k := range s {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	dst = appendU16(dst, uint16(len(keys)))
	for _, k := range keys {
		dst = appendString(appendString(dst, k), s[k])
	}
	return dst
}

// AppendRegister appends the body of REGISTER.
func AppendRegister(dst []byte, events []string) []byte { return appendStringList(dst, events) }

// AppendAuthResponse appends the body of AUTH_RESPONSE.
func AppendAuthResponse(dst, token []byte) []byte { return AppendBytes(dst, token) }

// AppendPlain appends a token of the SASL mechanism PLAIN.
func AppendPlain(dst []byte, user, password string) []byte {
	dst = append(append(dst, 0), user...)
	return append(append(dst, 0), password...)
}

// Append appends the body of QUERY.
func (q *Query) Append(dst []byte, version uint8) []byte {
	return q.Params.append(appendLongString(dst, q.Text), version)
}

// Append appends the body of PREPARE.
func (p *Prepare) Append(dst []byte, version uint8) []byte {
	dst = appendLongString(dst, p.Text)
	if version < V5 {
		return dst
	}
	if p.Keyspace == nil {
		return appendI32(dst, 0)
	}
	return appendString(appendI32(dst, 1), p.Keyspace)
}

// Append appends the body of EXECUTE.
func (e *Execute) Append(dst []byte, version uint8) []byte {
	dst = appendString(dst, e.ID)
	if version >= V5 {
		dst = appendString(dst, e.ResultMetadataID)
	}
	return e.Params.append(dst, version)
}

// append appends the parameters. A PageSize of 0 means NoPaging, so the zero Params is valid.
func (p *Params) append(dst []byte, version uint8) []byte {
	dst = appendU16(dst, uint16(p.Consistency))
	flags := p.Options.flags(version)
	if len(p.Values) > 0 {
		flags |= flagValues
	}
	if len(p.Names) > 0 {
		flags |= flagNames
	}
	if p.SkipMetadata {
		flags |= flagSkipMetadata
	}
	if p.PageSize != 0 && p.PageSize != NoPaging {
		flags |= flagPageSize
	}
	if p.PagingState != nil {
		flags |= flagPagingState
	}
	dst = appendFlags(dst, version, flags)
	if len(p.Values) > 0 {
		dst = appendBoundValues(dst, p.Values, p.Names, p.Unset)
	}
	if flags&flagPageSize != 0 {
		dst = appendI32(dst, p.PageSize)
	}
	if p.PagingState != nil {
		dst = AppendBytes(dst, p.PagingState)
	}
	return p.Options.append(dst, version)
}

func (o *Options) flags(version uint8) (flags uint32) {
	if o.HasSerial {
		flags |= flagSerial
	}
	if o.HasTimestamp {
		flags |= flagTimestamp
	}
	if version >= V5 && o.Keyspace != nil {
		flags |= flagKeyspace
	}
	if version >= V5 && o.HasNow {
		flags |= flagNow
	}
	return flags
}

func (o *Options) append(dst []byte, version uint8) []byte {
	if o.HasSerial {
		dst = appendU16(dst, uint16(o.Serial))
	}
	if o.HasTimestamp {
		dst = appendI64(dst, o.Timestamp)
	}
	if version >= V5 && o.Keyspace != nil {
		dst = appendString(dst, o.Keyspace)
	}
	if version >= V5 && o.HasNow {
		dst = appendI32(dst, o.Now)
	}
	return dst
}

func appendFlags(dst []byte, version uint8, flags uint32) []byte {
	if version >= V5 {
		return appendI32(dst, int32(flags))
	}
	return append(dst, byte(flags))
}

// appendBoundValues appends a count and the values as [value]. If the values have names, it also appends the names.
func appendBoundValues(dst []byte, values, names [][]byte, unset []bool) []byte {
	dst = appendU16(dst, uint16(len(values)))
	for i, v := range values {
		if len(names) > 0 {
			dst = appendString(dst, names[i])
		}
		if len(unset) > 0 && unset[i] {
			dst = appendI32(dst, -2)
			continue
		}
		dst = AppendBytes(dst, v)
	}
	return dst
}

// Append appends the body of BATCH.
func (b *Batch) Append(dst []byte, version uint8) []byte {
	dst = appendU16(append(dst, b.Kind), uint16(len(b.Statements)))
	for i := range b.Statements {
		s := &b.Statements[i]
		if s.ID != nil {
			dst = appendString(append(dst, 1), s.ID)
		} else {
			dst = appendLongString(append(dst, 0), s.Text)
		}
		dst = appendBoundValues(dst, s.Values, nil, s.Unset)
	}
	dst = appendU16(dst, uint16(b.Consistency))
	return b.Options.append(appendFlags(dst, version, b.Options.flags(version)), version)
}
