// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// KeyBytes is the length of a key.
const KeyBytes = 64

// Keys are what clients sign their requests with. A key that is empty admits nobody.
type Keys struct {
	// Primary and Secondary allow everything: there are two so that one can be replaced while clients use the other.
	Primary, Secondary []byte
	// ReadOnly allows reads and queries.
	ReadOnly []byte
}

// skewMax is how far the time of a request may be from the clock of the cluster, into the past or the future.
const skewMax = 15 * time.Minute

// signatureMax bounds the text of a signature, in bytes.
const signatureMax = 1024

// authenticate refuses a request without a valid signature. It reports whether the key is one for reads alone.
func (k *Keys) authenticate(method string, h http.Header, t *target, now time.Time) (readOnly bool, refusal *failure) {
	text := h.Get("Authorization")
	if text == "" {
		return false, unauthorized("Required Header authorization is missing. Ensure a valid Authorization token is passed.")
	}
	given, refusal := parseSignature(text)
	if refusal != nil {
		return false, refusal
	}
	date, other := h.Get("x-ms-date"), ""
	if date == "" {
		date = h.Get("Date")
		other = date
	}
	when, err := http.ParseTime(date)
	if err != nil {
		return false, unauthorized("The input authorization token is not valid: x-ms-date is missing, or no date in the " +
			"form of RFC 1123.")
	}
	if other != "" {
		date = "" // the fifth line has it then
	}
	signed := t.signed()
	lines := strings.ToLower(date) + "\n" + strings.ToLower(other) + "\n"
	valid := false
	for _, p := range signed {
		text := strings.ToLower(method) + "\n" + p.kind + "\n" + p.link + "\n" + lines
		if matches(k.Primary, text, given) || matches(k.Secondary, text, given) {
			valid, readOnly = true, false
			break
		}
		if matches(k.ReadOnly, text, given) {
			valid, readOnly = true, true
		}
	}
	if !valid {
		return false, unauthorized("The input authorization token can't serve the request. Please check that the expected " +
			"payload is built as per the protocol, and check the key being used. Server used the following payload to " +
			"sign: '" + strings.ToLower(method) + "\n" + signed[0].kind + "\n" + signed[0].link + "\n" + lines + "'")
	}
	if d := now.Sub(when); d > skewMax || d < -skewMax {
		return false, &failure{status: http.StatusForbidden, message: "The authorization token is not valid at the " +
			"current time. Please create another token and retry (token start time: " +
			when.Add(-skewMax).UTC().Format(http.TimeFormat) + ", token expiry time: " +
			when.Add(skewMax).UTC().Format(http.TimeFormat) + ", current server time: " +
			now.UTC().Format(http.TimeFormat) + ")."}
	}
	return readOnly, nil
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
func matches(key []byte, text string, given []byte) bool {
	if len(key) == 0 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	var sum [sha256.Size]byte
	return hmac.Equal(mac.Sum(sum[:0]), given)
}
