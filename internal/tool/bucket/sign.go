// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	signAlgorithm = "AWS4-HMAC-SHA256"
	signTime      = "20060102T150405Z"
	signDay       = "20060102"
)

// sign signs a request, including all present headers, whose body has the given digest. URL.RawPath and URL.RawQuery
// must be encoded with escape and encodeQuery, so that the signature covers the request as sent.
func sign(r *http.Request, c Credentials, region, digest string, at time.Time) {
	at = at.UTC()
	r.Header.Set("X-Amz-Date", at.Format(signTime))
	r.Header.Set("X-Amz-Content-Sha256", digest)
	if c.Session != "" {
		r.Header.Set("X-Amz-Security-Token", c.Session)
	}
	headers := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.TrimSpace(strings.Join(values, ","))
	}
	names := slices.Sorted(maps.Keys(headers))
	signed := strings.Join(names, ";")
	var canonical strings.Builder
	canonical.WriteString(r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n")
	for _, name := range names {
		canonical.WriteString(name + ":" + headers[name] + "\n")
	}
	canonical.WriteString("\n" + signed + "\n" + digest)
	scope := at.Format(signDay) + "/" + region + "/s3/aws4_request"
	text := signAlgorithm + "\n" + at.Format(signTime) + "\n" + scope + "\n" + digestOf([]byte(canonical.String()))
	key := []byte("AWS4" + c.Secret)
	for _, part := range []string{at.Format(signDay), region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", signAlgorithm+" Credential="+c.ID+"/"+scope+",SignedHeaders="+signed+
		",Signature="+hex.EncodeToString(mac(key, text)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// escape encodes a path for the signature: all bytes except unreserved characters and slashes.
func escape(path string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for _, c := range []byte(path) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~/", c) >= 0:
			out.WriteByte(c)
		default:
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return out.String()
}

// encodeQuery encodes a query for the signature: sorted, with %20 for a space.
func encodeQuery(q url.Values) string { return strings.ReplaceAll(q.Encode(), "+", "%20") }
