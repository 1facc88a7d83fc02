// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Startup maps the names of STARTUP options to their values. It includes unknown options.
type Startup map[string]string

// These are the options of STARTUP that the server uses.
const (
	StartupVersion         = "CQL_VERSION"
	StartupCompression     = "COMPRESSION"
	StartupThrowOnOverload = "THROW_ON_OVERLOAD"
	StartupDriverName      = "DRIVER_NAME"
	StartupDriverVersion   = "DRIVER_VERSION"
)

// TabletsRouting is the key of the protocol extension tablets-routing-v1. SUPPORTED offers the extension, and STARTUP
// requests it.
const TabletsRouting = "TABLETS_ROUTING_V1"

// DecodeStartup decodes the body of STARTUP.
func DecodeStartup(body []byte) (Startup, error) {
	c := cursor{b: body}
	n := c.count(4)
	s := make(Startup, n)
	for range n {
		k := c.str()
		s[string(k)] = string(c.str())
	}
	return s, c.err
}

// DecodeRegister decodes the body of REGISTER, which contains event types. DecodeRegister does not validate the event
// types.
func DecodeRegister(body []byte) ([]string, error) {
	c := cursor{b: body}
	l := c.stringList()
	return l, c.err
}

// DecodeAuthResponse decodes the body of AUTH_RESPONSE, which is a token.
func DecodeAuthResponse(body []byte) ([]byte, error) {
	c := cursor{b: body}
	token := c.bytes()
	return token, c.err
}

// DecodePlain decodes a token of the SASL mechanism PLAIN. The token contains an authorization ID, a user name, and a
// password, separated by zero bytes.
func DecodePlain(token []byte) (user, password string, err error) {
	parts := bytes.Split(token, []byte{0})
	switch {
	case len(parts[len(parts)-1]) == 0:
		return "", "", &dberr.BadCredentials{Message: "Password must not be null"}
	case len(parts) < 2 || len(parts[len(parts)-2]) == 0:
		return "", "", &dberr.BadCredentials{Message: "Authentication ID must not be null"}
	case len(parts) > 3:
		return "", "", &dberr.BadCredentials{Message: "Credential format error: username or password is empty or " +
			"contains NUL(\\0) character"}
	}
	return string(parts[len(parts)-2]), string(parts[len(parts)-1]), nil
}

// SplitPayload splits the custom payload off the start of a request's body (FlagPayload) and appends its entries to
// dst.
func SplitPayload(dst []PayloadEntry, body []byte) (entries []PayloadEntry, rest []byte, err error) {
	c := cursor{b: body}
	for range c.count(6) {
		k := c.str()
		dst = append(dst, PayloadEntry{k, c.bytes()})
	}
	return dst, c.b, c.err
}

// PayloadEntry is an entry of a custom payload.
type PayloadEntry struct{ Key, Value []byte }

// PasswordAuthenticator is the class that AUTHENTICATE contains. Some drivers accept only certain classes. All drivers
// accept this class.
const PasswordAuthenticator = "org.apache.cassandra.auth.PasswordAuthenticator"

// AppendAuthenticate appends the body of AUTHENTICATE.
func AppendAuthenticate(dst []byte, class string) []byte { return appendString(dst, class) }

// AppendAuthSuccess appends the body of AUTH_SUCCESS without a token.
func AppendAuthSuccess(dst []byte) []byte { return AppendBytes(dst, nil) }

// Option is an entry of SUPPORTED.
type Option struct {
	Key    string
	Values []string
}

// AppendSupported appends the body of SUPPORTED. The options are in the given order.
func AppendSupported(dst []byte, options []Option) []byte {
	dst = appendU16(dst, uint16(len(options)))
	for _, o := range options {
		dst = appendString(dst, o.Key)
		dst = appendStringList(dst, o.Values)
	}
	return dst
}
