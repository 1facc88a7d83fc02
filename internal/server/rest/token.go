// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/query/container"
)

// A resource token is
//
//	type=resource&ver=1&sig=SIGNATURE;PAYLOAD;
//
// The payload consists of a version, the index of the signing key, the number, the nonce, and the revision of the
// permission, and the times between which the token is valid. The signature is an HMAC-SHA256 of the payload. Its key
// is derived from an account key, so the token becomes invalid when that account key is changed. Both parts are in
// base64.

// tokenPrefix is the beginning of a resource token.
const tokenPrefix = "type=resource&ver=1&sig="

const (
	// tokenVersion is the first byte of a payload, and tokenBytes is the size of a payload.
	tokenVersion = 1
	tokenBytes   = 2 + 5*8
	// tokensMax is the maximum number of resource tokens in a request, and tokensBytesMax is the maximum size of their
	// text.
	tokensMax      = 16
	tokensBytesMax = 8 << 10
)

// These are the limits of the validity of a resource token.
const (
	tokenValidity      = time.Hour
	tokenValidityLeast = 10 * time.Second
	tokenValidityMax   = 24 * time.Hour
)

// signingKeys maps the second byte of a payload to the name of the account key.
var signingKeys = []string{primaryKey, secondaryKey}

// claims is the payload of a resource token.
type claims struct {
	// signer is the index of the account key in signingKeys.
	signer                  byte
	number                  uint32
	nonce, revision         uint64
	validFrom, validThrough int64 // in seconds since the epoch
}

// append appends the encoded payload.
func (c *claims) append(dst []byte) []byte {
	w := codec.Writer(append(dst, tokenVersion, c.signer))
	w.Fixed(uint64(c.number))
	w.Fixed(c.nonce)
	w.Fixed(c.revision)
	w.Fixed(uint64(c.validFrom))
	w.Fixed(uint64(c.validThrough))
	return w
}

// decodeClaims decodes the output of append. ok is false if the payload is invalid.
func decodeClaims(b []byte) (c claims, ok bool) {
	if len(b) != tokenBytes || b[0] != tokenVersion || int(b[1]) >= len(signingKeys) {
		return c, false
	}
	v := codec.NewReader(b[2:], errToken)
	number := v.Fixed()
	c = claims{signer: b[1], number: uint32(number), nonce: v.Fixed(), revision: v.Fixed(),
		validFrom: int64(v.Fixed()), validThrough: int64(v.Fixed())}
	return c, v.End() == nil && uint64(c.number) == number
}

var errToken = container.Errorf(http.StatusUnauthorized, 0, "The resource token is malformed.")

// accountKey returns the account key by its index in signingKeys. It is empty if there is no such key.
func (k *Keys) accountKey(signer byte) []byte {
	if signer == 0 {
		return k.Primary
	}
	return k.Secondary
}

// signToken returns the signature of a payload by a key that is derived from an account key.
func signToken(accountKey, payload []byte) []byte {
	derive := hmac.New(sha256.New, accountKey)
	derive.Write([]byte("ilion resource token v1"))
	sign := hmac.New(sha256.New, derive.Sum(nil))
	sign.Write(payload)
	return sign.Sum(nil)
}

// issue returns a resource token for a permission. signer is the name of the account key of the request.
func (k *Keys) issue(p *container.DatabaseResource, signer string, now time.Time, validity time.Duration) string {
	c := claims{number: p.Number, nonce: p.Nonce, revision: p.Revision, validFrom: now.Unix(),
		validThrough: now.Add(validity).Unix()}
	if signer == secondaryKey {
		c.signer = 1
	}
	payload := c.append(nil)
	encode := base64.StdEncoding.EncodeToString
	return tokenPrefix + encode(signToken(k.accountKey(c.signer), payload)) + ";" + encode(payload) + ";"
}

// verify returns the claims of a resource token if its signature is valid at the given time.
func (k *Keys) verify(token string, now time.Time) (c claims, refusal *failure) {
	malformed := unauthorized("The input authorization token is not valid: the resource token was altered, or the account " +
		"key that signed it has been changed. Read the permission again to get a new token.")
	text, ok := strings.CutPrefix(token, tokenPrefix)
	signature, payload, found := strings.Cut(strings.TrimSuffix(text, ";"), ";")
	if !ok || !found || strings.ContainsAny(text, "\r\n") { // the decoder ignores line breaks
		return c, malformed
	}
	given, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil {
		return c, malformed
	}
	b, err := base64.StdEncoding.Strict().DecodeString(payload)
	if err != nil {
		return c, malformed
	}
	if c, ok = decodeClaims(b); !ok {
		return c, malformed
	}
	key := k.accountKey(c.signer)
	if len(key) == 0 || !hmac.Equal(signToken(key, b), given) {
		return c, malformed
	}
	from, through := time.Unix(c.validFrom, 0), time.Unix(c.validThrough, 0)
	if !now.Before(through) || now.Before(from.Add(-skewMax)) {
		return c, notNow(from, through, now)
	}
	return c, nil
}

// notNow rejects a token that is not valid at the present time.
func notNow(from, through, now time.Time) *failure {
	return &failure{status: http.StatusForbidden, message: "The authorization token is not valid at the " +
		"current time. Please create another token and retry (token start time: " +
		from.UTC().Format(http.TimeFormat) + ", token expiry time: " + through.UTC().Format(http.TimeFormat) +
		", current server time: " + now.UTC().Format(http.TimeFormat) + ")."}
}

// resourceTokens returns the resource tokens of an Authorization header, or nil if the header contains another kind of
// authorization. SDKs URL-encode the header. Several tokens are separated by commas.
func resourceTokens(text string) (tokens []string, refusal *failure) {
	const begin = "type=resource"
	if !strings.HasPrefix(text, begin) && !strings.HasPrefix(text, "type%3Dresource") &&
		!strings.HasPrefix(text, "type%3dresource") {
		return nil, nil
	}
	if len(text) > tokensBytesMax {
		return nil, unauthorized("The input authorization token is too long.")
	}
	text, err := url.PathUnescape(text)
	if err != nil || !strings.HasPrefix(text, begin) {
		return nil, nil
	}
	tokens = strings.Split(text, ",")
	if len(tokens) > tokensMax {
		return nil, unauthorized("The request has more than " + strconv.Itoa(tokensMax) + " resource tokens.")
	}
	return tokens, nil
}

// authenticateTokens sets the permissions of the resource tokens of a request. It rejects the request if no token is
// valid.
func (x *exchange) authenticateTokens(tokens []string) *failure {
	s := x.server
	keys, now := s.opts.Account.Keys(), s.opts.Clock.Wall()
	var first *failure
	for _, token := range tokens {
		c, refusal := keys.verify(strings.TrimSpace(token), now)
		if refusal == nil {
			if p := s.engine.Permission(x.conn.ctx, c.number, c.nonce, c.revision); p != nil {
				x.granted = append(x.granted, p)
				continue
			}
			refusal = unauthorized("The input authorization token is not valid: its permission was replaced or deleted. Read " +
				"the permission again to get a new token.")
		}
		if first == nil {
			first = refusal
		}
	}
	if len(x.granted) == 0 {
		return first
	}
	p := x.granted[0]
	x.signer = p.Database.ID + "/" + p.User.ID + "/" + p.ID
	return nil
}

// validity returns the validity of the resource tokens in a response.
func (x *exchange) validity() (time.Duration, *failure) {
	text := x.header.Get(hTokenExpiry)
	if text == "" {
		return tokenValidity, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if d := time.Duration(n) * time.Second; err == nil && d >= tokenValidityLeast && d <= tokenValidityMax {
		return d, nil
	}
	return 0, badRequest("x-ms-documentdb-expiry-seconds must be a number from " +
		strconv.Itoa(int(tokenValidityLeast/time.Second)) + " to " + strconv.Itoa(int(tokenValidityMax/time.Second)) +
		", not " + strconv.Quote(text) + ".")
}
