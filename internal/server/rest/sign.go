// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// KeyBytes is the length of a key.
const KeyBytes = 64

// Keys are what clients sign their requests with. A key that is empty admits nobody.
type Keys struct {
	// Primary and Secondary allow everything: there are two so that one can be replaced while clients use the other.
	Primary, Secondary []byte
	// ReadOnly allows reads and queries.
	ReadOnly []byte

	// Hashes that are ready for a key: making one takes as long as signing a request.
	primary, secondary, readOnly sync.Pool
}

// The names of the keys.
const (
	primaryKey   = "primary"
	secondaryKey = "secondary"
	readOnlyKey  = "read-only"
)

// skewMax is how far the time of a request may be from the clock of the cluster, into the past or the future.
const skewMax = 15 * time.Minute

// signatureMax bounds the text of a signature, in bytes.
const signatureMax = 1024

// authenticate refuses a request without a valid signature. It returns the name of the key.
func (k *Keys) authenticate(method string, h httpwire.Fields, t *target, now time.Time) (signer string,
	refusal *failure) {
	text := h.Get("Authorization")
	if text == "" {
		return "", unauthorized("Required Header authorization is missing. Ensure a valid Authorization token is passed.")
	}
	given, refusal := parseSignature(text)
	if refusal != nil {
		return "", refusal
	}
	date, other := h.Get("x-ms-date"), ""
	if date == "" {
		date = h.Get("Date")
		other = date
	}
	when, err := http.ParseTime(date)
	if err != nil {
		return "", unauthorized("The input authorization token is not valid: x-ms-date is missing, or no date in the " +
			"form of RFC 1123.")
	}
	if other != "" {
		date = "" // the fifth line has it then
	}
	signed := t.signed()
	lines := strings.ToLower(date) + "\n" + strings.ToLower(other) + "\n"
	for _, p := range signed {
		text := []byte(strings.ToLower(method) + "\n" + p.kind + "\n" + p.link + "\n" + lines)
		switch {
		case matches(&k.primary, k.Primary, text, given):
			signer = primaryKey
		case matches(&k.secondary, k.Secondary, text, given):
			signer = secondaryKey
		case matches(&k.readOnly, k.ReadOnly, text, given):
			signer = readOnlyKey
			continue // another form may be signed with a key that allows more
		default:
			continue
		}
		break
	}
	if signer == "" {
		return "", unauthorized("The input authorization token can't serve the request. Please check that the expected " +
			"payload is built as per the protocol, and check the key being used. Server used the following payload to " +
			"sign: '" + strings.ToLower(method) + "\n" + signed[0].kind + "\n" + signed[0].link + "\n" + lines + "'")
	}
	if d := now.Sub(when); d > skewMax || d < -skewMax {
		return "", &failure{status: http.StatusForbidden, message: "The authorization token is not valid at the " +
			"current time. Please create another token and retry (token start time: " +
			when.Add(-skewMax).UTC().Format(http.TimeFormat) + ", token expiry time: " +
			when.Add(skewMax).UTC().Format(http.TimeFormat) + ", current server time: " +
			now.UTC().Format(http.TimeFormat) + ")."}
	}
	return signer, nil
}

// parseSignature returns the signature in an Authorization header, which may be URL-encoded.
func parseSignature(text string) ([]byte, *failure) {
	if len(text) > signatureMax {
		return nil, unauthorized("The input authorization token is too long.")
	}
	// A plus sign is one of base64: in an encoded text it is %2B.
	text, err := url.PathUnescape(text)
	if sig, ok := strings.CutPrefix(text, "type=master&ver=1.0&sig="); ok && err == nil {
		if sig, err := base64.StdEncoding.DecodeString(sig); err == nil && len(sig) == sha256.Size {
			return sig, nil
		}
	}
	switch {
	case strings.HasPrefix(text, "type=resource"):
		return nil, unauthorized("Resource tokens are not supported: sign the request with a key of the account.")
	case strings.HasPrefix(text, "type=aad"):
		return nil, unauthorized("Tokens of Microsoft Entra ID are not supported: sign the request with a key of the account.")
	}
	return nil, unauthorized("The input authorization token is not valid: it has the form " +
		"type=master&ver=1.0&sig=SIGNATURE, URL-encoded.")
}

// matches reports whether a signature is that of a text. The time that takes does not depend on where they differ.
// Ready has hashes for the key.
func matches(ready *sync.Pool, key, text, given []byte) bool {
	if len(key) == 0 {
		return false
	}
	mac, ok := ready.Get().(hash.Hash)
	if !ok {
		mac = hmac.New(sha256.New, key)
	}
	mac.Write(text)
	var sum [sha256.Size]byte
	valid := hmac.Equal(mac.Sum(sum[:0]), given)
	mac.Reset()
	ready.Put(mac)
	return valid
}
