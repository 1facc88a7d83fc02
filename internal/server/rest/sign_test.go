// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// keyOf returns a test key that consists of consecutive bytes. The first byte is n.
func keyOf(n byte) []byte {
	key := make([]byte, KeyBytes)
	for i := range key {
		key[i] = n + byte(i)
	}
	return key
}

var signedAt = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)

// signed returns headers with a signature for keyOf(0). @azure/cosmos 4.9.3 or azure-cosmos 4.17.1 computed the
// signature.
func signed(sig string) httpwire.Fields {
	return httpwire.Fields{{Name: "Authorization", Value: url.QueryEscape("type=master&ver=1.0&sig=" + sig)},
		{Name: "X-Ms-Date", Value: signedAt.Format(http.TimeFormat)}}
}

// goldenSignatures lists signatures that the code of the SDKs computed.
var goldenSignatures = []struct{ method, path, sig string }{
	{get, "/", "1mV+q75lYxjx9l+wQfwBXxfOvBiSurY5R07EtJmn2Xs="},
	{post, "/dbs", "zQrg0DnQmcc5Vm/vg8qeYHA7S6Lc5VKukunTzqFl6UM="},
	{post, "/dbs/", "zQrg0DnQmcc5Vm/vg8qeYHA7S6Lc5VKukunTzqFl6UM="},
	{get, "/dbs/d", "aBeUktPBxzFW4tH59mAp548vKYVomD2yhVKTcy01RPw="},
	{post, "/dbs/d/colls/c/docs", "M7/11xxE8mB6vbNxw8wkzoAq5cYHhlWAMlShSR0E7ys="},
	{get, "/dbs/d/colls/%C3%A9%20c/docs/a%20b", "c9tSa1OAklDUBrGWtfyi8uOrg9pUYh1YY/hHciLIp4k="},
	{put, "/offers/AbCd/", "/ZyTbLUfYwV07OSn/6G7a3fCjHAAks/4vfU4XwXJvGw="},
	{get, "/dbs/gAAKAA==/colls/gAAKAOmAAAA=/docs/gAAKAOmAAAABAAAAAAAAAA==/",
		"NDI8U5rDXG66HxiRX8fUebpCjmW2+igljS4kFoU29mc="},
	{del, "/dbs/d/colls/c/docs/x/", "qT403ktPonXX6k3odmpmrp5fj7twHL+kUnHPIID2d0g="},
}

// TestGoldenSignatures checks that the signatures of SDKs are accepted for links by name and by resource ID. The links
// include escapes and trailing slashes. Each of the keys, and no other key, must grant access.
func TestGoldenSignatures(t *testing.T) {
	for _, c := range goldenSignatures {
		for _, k := range []struct {
			name         string
			keys         *Keys
			in, readOnly bool
		}{
			{"primary", &Keys{Primary: keyOf(0), Secondary: keyOf(1), ReadOnly: keyOf(2)}, true, false},
			{"secondary", &Keys{Primary: keyOf(1), Secondary: keyOf(0), ReadOnly: keyOf(2)}, true, false},
			{"read-only", &Keys{Primary: keyOf(1), Secondary: keyOf(2), ReadOnly: keyOf(0)}, true, true},
			{"none", &Keys{Primary: keyOf(1), Secondary: keyOf(2), ReadOnly: keyOf(3)}, false, false},
			{"no keys", &Keys{}, false, false},
		} {
			signer, refusal := k.keys.authenticate(c.method, signed(c.sig), parseTarget(c.path), signedAt, nil)
			if (refusal == nil) != k.in || (signer == readOnlyKey) != k.readOnly {
				t.Errorf("%s %s by the %s key: read-only %v, %v", c.method, c.path, k.name, signer, refusal)
			}
			if refusal != nil && refusal.status != http.StatusUnauthorized {
				t.Errorf("%s %s by the %s key: status %d", c.method, c.path, k.name, refusal.status)
			}
		}
	}
}

// TestSignaturesAreRefused checks the errors for signatures that are missing, malformed, expired, of an unsupported
// type, or made for another request. The test also covers signatures with a future date.
func TestSignaturesAreRefused(t *testing.T) {
	keys := &Keys{Primary: keyOf(0)}
	good := "aBeUktPBxzFW4tH59mAp548vKYVomD2yhVKTcy01RPw=" // a signature for GET dbs/d
	with := func(name, value string) httpwire.Fields {
		h := signed(good)
		for i := range h {
			if h[i].Name == name {
				h[i].Value = value
			}
		}
		return h
	}
	for _, c := range []struct {
		name, method, path string
		header             httpwire.Fields
		now                time.Time
		status             int
		text               string
	}{
		{"none", get, "/dbs/d", with("Authorization", ""), signedAt, 401, "Required Header authorization is missing"},
		{"no date", get, "/dbs/d", with("X-Ms-Date", ""), signedAt, 401, "x-ms-date is missing"},
		{"no real date", get, "/dbs/d", with("X-Ms-Date", "yesterday"), signedAt, 401, "x-ms-date is missing"},
		{"another date", get, "/dbs/d", with("X-Ms-Date", "Mon, 23 Nov 2026 10:00:01 GMT"), signedAt, 401,
			"Server used the following payload to sign: 'get\ndbs\ndbs/d\nmon, 23 nov 2026 10:00:01 gmt\n\n'"},
		{"another method", del, "/dbs/d", signed(good), signedAt, 401, "can't serve the request"},
		{"another database", get, "/dbs/D", signed(good), signedAt, 401, "can't serve the request"},
		{"a part of it", get, "/dbs/d/colls", signed(good), signedAt, 401, "can't serve the request"},
		{"a resource token", get, "/dbs/d", with("Authorization", "type%3Dresource%26ver%3D1%26sig%3Dx"), signedAt, 401,
			"it has the form"},
		{"Entra ID", get, "/dbs/d", with("Authorization", "type=aad&ver=1.0&sig=x"), signedAt, 401,
			"Entra ID tokens are not supported"},
		{"no base64", get, "/dbs/d", with("Authorization", "type=master&ver=1.0&sig=!"), signedAt, 401,
			"it has the form"},
		{"too short", get, "/dbs/d", with("Authorization", "type=master&ver=1.0&sig=AAAA"), signedAt, 401,
			"it has the form"},
		{"no form", get, "/dbs/d", with("Authorization", "Bearer x"), signedAt, 401, "it has the form"},
		{"broken escape", get, "/dbs/d", with("Authorization", "type%3Dmaster%2"), signedAt, 401, "it has the form"},
		{"too long", get, "/dbs/d", with("Authorization", strings.Repeat("x", 2000)), signedAt, 401, "is too long"},
		{"15 minutes old", get, "/dbs/d", signed(good), signedAt.Add(15 * time.Minute), 0, ""},
		{"older", get, "/dbs/d", signed(good), signedAt.Add(15*time.Minute + 1), 403, "not valid at the current time"},
		{"15 minutes young", get, "/dbs/d", signed(good), signedAt.Add(-15 * time.Minute), 0, ""},
		{"younger", get, "/dbs/d", signed(good), signedAt.Add(-15*time.Minute - 1), 403,
			"not valid at the current time"},
		{"older and wrong", del, "/dbs/d", signed(good), signedAt.Add(time.Hour), 401, "can't serve the request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, refusal := keys.authenticate(c.method, c.header, parseTarget(c.path), c.now, nil)
			switch {
			case c.status == 0 && refusal != nil:
				t.Errorf("rejected: %v", refusal)
			case c.status != 0 && (refusal == nil || refusal.status != c.status ||
				!strings.Contains(refusal.message, c.text)):
				t.Errorf("got %+v, want %d %q", refusal, c.status, c.text)
			}
		})
	}
}
