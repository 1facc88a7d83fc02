// SPDX-License-Identifier: Apache-2.0

package joinsecret

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// TestFlippedBitsOfJoinSecret checks that a flipped bit in a file that Ilion wrote never results in a different
// secret. Either the file is rejected, or its secret is unchanged.
func TestFlippedBitsOfJoinSecret(t *testing.T) {
	secret := []byte(strings.Repeat("0123456789", 4))
	text := format(secret)
	if got, err := parse(text); err != nil || !bytes.Equal(got, secret) {
		t.Fatalf("%q: %q, %v", text, got, err)
	}
	refused := 0
	for at := range len(text) {
		for bit := range 8 {
			b := []byte(text)
			b[at] ^= 1 << bit
			switch got, err := parse(string(b)); {
			case err != nil && strings.Contains(err.Error(), "is damaged"):
				refused++
			case err != nil || !bytes.Equal(got, secret):
				t.Errorf("byte %d, bit %d: %q, %v", at, bit, got, err)
			}
		}
	}
	if refused < 8*(len(text)-1) {
		t.Errorf("%d of %d flipped bits were rejected", refused, 8*len(text))
	}
	if got, err := parse(text[:len(text)/2]); err == nil {
		t.Errorf("half of the file: %q", got)
	}
}

// TestSecretsByHand checks which secrets an operator may write. An operator may write any single line that cannot be
// guessed.
func TestSecretsByHand(t *testing.T) {
	long := strings.Repeat("x", transport.SecretMin)
	for _, c := range []struct{ text, secret, problem string }{
		{long, long, ""},
		{" " + long + "\r\n", long, ""},
		{"correct horse battery staple, and more", "correct horse battery staple, and more", ""},
		{long + ":1a2b3c4d", long + ":1a2b3c4d", ""},
		{"", "", "openssl rand"},
		{long[1:], "", "at least 32"},
		{long + "\n" + long, "", "one line"},
		{long + "\x00", "", "one line"},
		{long + "\xfc", "", "one line"},
		{secretHead + long, "", "is damaged"},
		{long + secretTail, "", "is damaged"},
		{secretHead, "", "is damaged"},
		{secretHead[:5] + secretTail, "", "is damaged"},
	} {
		got, err := parse(c.text)
		if string(got) != c.secret || (err == nil) != (c.problem == "") {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}
