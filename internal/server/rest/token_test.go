// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/query/container"
)

// aPermission is the permission of the tokens of these tests.
var aPermission = &container.DatabaseResource{Resource: &dbresource.Resource{Number: 7, Nonce: 1 << 60, Revision: 300}}

// TestTokens checks that a resource token is valid from its issue until its expiry, and only for the account key that
// signed it. A node whose clock is slightly behind must accept a new token.
func TestTokens(t *testing.T) {
	keys := &Keys{Primary: keyOf(7), Secondary: keyOf(8), ReadOnly: keyOf(9)}
	for _, c := range []struct {
		name   string
		signer string
		keys   *Keys
		after  time.Duration
		status int
	}{
		{"primary", primaryKey, keys, 0, 0},
		{"secondary", secondaryKey, keys, 0, 0},
		{"just before the expiry", primaryKey, keys, time.Hour - 1, 0},
		{"at the expiry", primaryKey, keys, time.Hour, http.StatusForbidden},
		{"long after", primaryKey, keys, 1000 * time.Hour, http.StatusForbidden},
		{"a clock that is behind", primaryKey, keys, -skewMax, 0},
		{"a clock that is far behind", primaryKey, keys, -skewMax - time.Second, http.StatusForbidden},
		{"a clock at the beginning of time", primaryKey, keys, -signedAt.Sub(time.Unix(0, 0)), http.StatusForbidden},
		{"another primary key", primaryKey, &Keys{Primary: keyOf(1), Secondary: keyOf(8)}, 0, http.StatusUnauthorized},
		{"another secondary key", primaryKey, &Keys{Primary: keyOf(7), Secondary: keyOf(1)}, 0, 0},
		{"exchanged keys", primaryKey, &Keys{Primary: keyOf(8), Secondary: keyOf(7)}, 0, http.StatusUnauthorized},
		{"no secondary key", secondaryKey, &Keys{Primary: keyOf(7)}, 0, http.StatusUnauthorized},
	} {
		token := keys.issue(aPermission, c.signer, signedAt, time.Hour)
		got, refusal := c.keys.verify(token, signedAt.Add(c.after))
		switch {
		case c.status == 0 && (refusal != nil || got.number != 7 || got.nonce != 1<<60 || got.revision != 300):
			t.Errorf("%s: %+v, %v", c.name, got, refusal)
		case c.status != 0 && (refusal == nil || refusal.status != c.status):
			t.Errorf("%s: %+v, want %d", c.name, refusal, c.status)
		}
	}
}

// TestAlteredTokens checks that no altered or invented token is valid: each single bit, parts of other tokens, other
// encodings of the same bytes, and a signature by the account key itself.
func TestAlteredTokens(t *testing.T) {
	keys := &Keys{Primary: keyOf(7), Secondary: keyOf(8), ReadOnly: keyOf(9)}
	token := keys.issue(aPermission, primaryKey, signedAt, time.Hour)
	refused := func(token string) {
		t.Helper()
		if _, refusal := keys.verify(token, signedAt); refusal == nil || refusal.status != http.StatusUnauthorized {
			t.Errorf("%s: %+v", token, refusal)
		}
	}
	signature, payload, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(token, ";"), tokenPrefix), ";")
	join := func(signature, payload []byte) string {
		return tokenPrefix + base64.StdEncoding.EncodeToString(signature) + ";" +
			base64.StdEncoding.EncodeToString(payload) + ";"
	}
	sig, _ := base64.StdEncoding.DecodeString(signature)
	load, _ := base64.StdEncoding.DecodeString(payload)
	if _, refusal := keys.verify(join(sig, load), signedAt); refusal != nil {
		t.Fatal(refusal)
	}
	for i := range 8 * len(sig) {
		altered := append([]byte{}, sig...)
		altered[i/8] ^= 1 << (i % 8)
		refused(join(altered, load))
	}
	for i := range 8 * len(load) {
		altered := append([]byte{}, load...)
		altered[i/8] ^= 1 << (i % 8)
		refused(join(sig, altered))
	}
	longer := keys.issue(aPermission, primaryKey, signedAt, 2*time.Hour)
	_, later, _ := strings.Cut(longer, ";")
	refused(tokenPrefix + signature + ";" + later)
	refused(join(sig, append(load, 0)))
	refused(join(sig, load[:len(load)-1]))
	refused(join(nil, load))
	refused(join(sig, nil))
	refused(join(signToken(nil, load), load))
	refused(join(signToken(keyOf(9), load), load)) // the read-only key signs no tokens
	load[1] = 2
	refused(join(signToken(keyOf(9), load), load))
	refused(tokenPrefix)
	refused(strings.Replace(token, "resource", "master", 1))
	refused(strings.Replace(token, "ver=1", "ver=2", 1))
	refused(tokenPrefix + signature + "\n;" + payload + ";")
	refused(tokenPrefix + signature + ";" + payload + ";" + payload + ";")
}

// TestTokenHeaders checks which Authorization headers contain resource tokens.
func TestTokenHeaders(t *testing.T) {
	for _, c := range []struct {
		text   string
		tokens int
		status int
	}{
		{"", 0, 0},
		{"type=master&ver=1.0&sig=x", 0, 0},
		{"type%3Dmaster%26ver%3D1.0%26sig%3Dx", 0, 0},
		{tokenPrefix + "a;b;", 1, 0},
		{"type%3Dresource%26ver%3D1%26sig%3Da%3Bb%3B", 1, 0},
		{"type%3dresource%26ver%3d1%26sig%3da%3bb%3b", 1, 0},
		{"type%3Dresource%2", 0, 0},
		{tokenPrefix + "a;b;," + tokenPrefix + "a;b;", 2, 0},
		{tokenPrefix + strings.Repeat(",", tokensMax-1), tokensMax, 0},
		{tokenPrefix + strings.Repeat(",", tokensMax), 0, http.StatusUnauthorized},
		{tokenPrefix + strings.Repeat("a", tokensBytesMax), 0, http.StatusUnauthorized},
	} {
		tokens, refusal := resourceTokens(c.text)
		if len(tokens) != c.tokens || (refusal != nil) != (c.status != 0) ||
			refusal != nil && refusal.status != c.status {
			t.Errorf("%.60s: %d tokens, %v", c.text, len(tokens), refusal)
		}
	}
}
