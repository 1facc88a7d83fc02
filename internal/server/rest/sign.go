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

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// KeyBytes is the length of a key.
const KeyBytes = 64

// Keys contains the account keys with which clients sign requests. An empty key grants no access.
type Keys struct {
	// Primary and Secondary allow all operations. One of these keys can be replaced while clients use the other key.
	Primary, Secondary []byte
	// ReadOnly allows reads and queries.
	ReadOnly []byte

	// These fields are pools of keyed hashes. The creation of a hash takes as long as the signature of a request.
	primary, secondary, readOnly sync.Pool
}

// These are the names of the keys.
const (
	primaryKey   = access.PrimaryKey
	secondaryKey = access.SecondaryKey
	readOnlyKey  = access.ReadOnlyKey
)

// skewMax is the maximum difference between the time of a request and the clock of the cluster.
const skewMax = 15 * time.Minute

// signatureMax is the maximum size of a signature's text in bytes.
const signatureMax = 1024

// authenticate rejects a request without a valid signature. It returns the name of the key. If room is large enough,
// it assembles the signed text in room.
func (k *Keys) authenticate(method string, h httpwire.Fields, t *target, now time.Time, room []byte) (signer string,
	refusal *failure) {
	text := h.Get("Authorization")
	if text == "" {
		return "", unauthorized("Required Header authorization is missing. Ensure a valid Authorization token is passed.")
	}
	var given [sha256.Size]byte
	if refusal := parseSignature(&given, text); refusal != nil {
		return "", refusal
	}
	date, other := h.Get("x-ms-date"), ""
	if date == "" {
		date = h.Get("Date")
		other = date
	}
	when, err := http.ParseTime(date)
	if err != nil {
		return "", unauthorized("The input authorization token is not valid: x-ms-date is missing or not an RFC 1123 " +
			"date.")
	}
	if other != "" {
		date = "" // the fifth line of this form contains the date
	}
	payload := func(i int) []byte {
		text := append(appendLower(room[:0], method), '\n')
		if text = t.appendSigned(text, i); text == nil {
			return nil
		}
		return append(appendLower(append(appendLower(append(text, '\n'), date), '\n'), other), '\n')
	}
	for i := range signedMax {
		text := payload(i)
		if text == nil {
			continue
		}
		room = text
		switch {
		case matches(&k.primary, k.Primary, text, given[:]):
			signer = primaryKey
		case matches(&k.secondary, k.Secondary, text, given[:]):
			signer = secondaryKey
		case matches(&k.readOnly, k.ReadOnly, text, given[:]):
			signer = readOnlyKey
			continue // the key of another form may allow more operations
		default:
			continue
		}
		break
	}
	if signer == "" {
		signed := payload(0)
		if signed == nil {
			signed = payload(1)
		}
		return "", unauthorized("The input authorization token can't serve the request. Please check that the expected " +
			"payload is built as per the protocol, and check the key being used. Server used the following payload to " +
			"sign: '" + string(signed) + "'")
	}
	if d := now.Sub(when); d > skewMax || d < -skewMax {
		return "", notNow(when.Add(-skewMax), when.Add(skewMax), now)
	}
	return signer, nil
}

// appendLower appends a text with its ASCII letters in lower case.
func appendLower(dst []byte, s string) []byte {
	begin := len(dst)
	dst = append(dst, s...)
	for i := begin; i < len(dst); i++ {
		if c := dst[i]; c >= 'A' && c <= 'Z' {
			dst[i] = c | 0x20
		}
	}
	return dst
}

// parseSignature parses the signature in an Authorization header, which may be URL-encoded.
func parseSignature(given *[sha256.Size]byte, text string) *failure {
	if len(text) > signatureMax {
		return unauthorized("The input authorization token is too long.")
	}
	// A literal plus sign belongs to the base64 text. In an encoded text, it has the form %2B.
	text, err := url.PathUnescape(text)
	if sig, ok := strings.CutPrefix(text, "type=master&ver=1.0&sig="); ok && err == nil {
		// The base64 text may contain line breaks, so it may be longer than the encoded signature.
		room := make([]byte, 0, 64)
		if sig, err := base64.StdEncoding.AppendDecode(room, []byte(sig)); err == nil && len(sig) == sha256.Size {
			copy(given[:], sig)
			return nil
		}
	}
	if strings.HasPrefix(text, "type=aad") {
		return unauthorized("Microsoft Entra ID tokens are not supported. Sign the request with an account key.")
	}
	return unauthorized("The input authorization token is not valid: it has the form " +
		"type=master&ver=1.0&sig=SIGNATURE, URL-encoded.")
}

// matches reports whether a signature is valid for a text. It runs in constant time. ready is a pool of hashes with
// the key.
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
