// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// sealed is a Target that encrypts the files of another Target (RFC 0034):
//
//	sealed             "ilion-sealed 1 <proof of the key>\n"
//	contents           "ilionbox", format u8, salt [32], AES-256-GCM of the contents, by a key of their own: HKDF of the
//	                   key for contents and the salt. The name is authenticated with them.
//	digests in names   AES-256-CTR of the digest, by a synthetic IV: HMAC-SHA-256 of the digest, of which the first 16
//	                   bytes stand before it. Equal digests have equal names, for whoever has the key only.
type sealed struct {
	Target
	key *Key
}

const (
	sealedName   = "sealed"
	sealedWord   = "ilion-sealed "
	sealedFormat = 1

	boxMagic  = "ilionbox"
	boxFormat = 1
	boxSalt   = 32
	boxHead   = len(boxMagic) + 1 + boxSalt

	digestBytes = sha256.Size
	ivBytes     = aes.BlockSize
)

func (k *Key) seal(t Target) *sealed { return &sealed{t, k} }

// begin marks an empty repository as encrypted.
func (s *sealed) begin(ctx context.Context) error { return s.Target.Put(ctx, sealedName, s.mark()) }

func (s *sealed) mark() []byte {
	return fmt.Appendf(nil, "%s%d %x\n", sealedWord, sealedFormat, s.key.proof)
}

// check verifies the key of a repository.
func (s *sealed) check(ctx context.Context, place string) error {
	text, err := s.Target.Get(ctx, sealedName)
	if err != nil {
		return err
	}
	var format uint64
	var proof []byte
	rest, ok := bytes.CutPrefix(text, []byte(sealedWord))
	if _, err := fmt.Sscanf(string(rest), "%d %x\n", &format, &proof); !ok || err != nil {
		return fmt.Errorf("%s in %s: %w", sealedName, place, archive.ErrDamaged)
	}
	if format != sealedFormat {
		return &feature.Newer{What: place, Unit: "format of encryption", Has: format, Oldest: sealedFormat,
			Newest: sealedFormat}
	}
	if !hmac.Equal(proof, s.key.proof) {
		return fmt.Errorf("cannot open %s: it is encrypted with key %x, not with the specified key %s", place,
			proof[:min(len(proof), 8)], s.key.Fingerprint())
	}
	return nil
}

// box returns the cipher for contents with a salt. Each key is used only once, so the nonce is constant.
func (s *sealed) box(salt []byte) (cipher.AEAD, []byte, error) {
	key, err := hkdf.Key(sha256.New, s.key.contents, salt, "ilion backup 1 box", keyBytes)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, make([]byte, 12), err
}

// with returns the additional authenticated data, which consists of the header of the box and the name.
func with(head []byte, name string) []byte { return append(slices.Clone(head), name...) }

// Put implements Target.
func (s *sealed) Put(ctx context.Context, name string, data []byte) error {
	box := make([]byte, boxHead, boxHead+len(data)+16)
	copy(box, boxMagic)
	box[len(boxMagic)] = boxFormat
	_, _ = rand.Read(box[boxHead-boxSalt:]) // does not fail
	aead, nonce, err := s.box(box[boxHead-boxSalt:])
	if err != nil {
		return err
	}
	return s.Target.Put(ctx, s.hide(name), aead.Seal(box, nonce, data, with(box, name)))
}

// Get implements Target.
func (s *sealed) Get(ctx context.Context, name string) ([]byte, error) {
	box, err := s.Target.Get(ctx, s.hide(name))
	if err != nil {
		return nil, err
	}
	return s.from(box, name)
}

// from decrypts a box that was stored under the given name.
func (s *sealed) from(box []byte, name string) ([]byte, error) {
	if len(box) < boxHead || string(box[:len(boxMagic)]) != boxMagic {
		return nil, fmt.Errorf("%s, stored as %s: %w: it is not encrypted", name, s.hide(name), archive.ErrDamaged)
	}
	if v := box[len(boxMagic)]; v != boxFormat {
		return nil, &feature.Newer{What: name, Unit: "format of encryption", Has: uint64(v), Oldest: boxFormat,
			Newest: boxFormat}
	}
	head := box[:boxHead]
	aead, nonce, err := s.box(head[boxHead-boxSalt:])
	if err != nil {
		return nil, err
	}
	data, err := aead.Open(nil, nonce, box[boxHead:], with(head, name))
	if err != nil {
		return nil, fmt.Errorf("%s, stored as %s: %w: its contents have changed since it was encrypted", name,
			s.hide(name),
			archive.ErrDamaged)
	}
	return data, nil
}

// Has implements Target.
func (s *sealed) Has(ctx context.Context, name string) (bool, error) {
	return s.Target.Has(ctx, s.hide(name))
}

// Remove implements Target.
func (s *sealed) Remove(ctx context.Context, name string) error {
	return s.Target.Remove(ctx, s.hide(name))
}

// List implements Target. It omits names that were not created with the key.
func (s *sealed) List(ctx context.Context, prefix string) ([]string, error) {
	// Directories below the top level may have the names of digests (see hide).
	top, _, _ := strings.Cut(prefix, "/")
	names, err := s.Target.List(ctx, top+"/")
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(names))
	for _, hidden := range names {
		name := s.show(hidden)
		if s.hide(name) == hidden && strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// hide returns the stored name of a file. The original name is a digest of the contents. Anyone who guesses the
// contents could compute the digest.
func (s *sealed) hide(name string) string {
	return renamed(name, digestBytes, func(digest []byte) []byte {
		h := hmac.New(sha256.New, s.key.names)
		h.Write(digest)
		iv := h.Sum(nil)[:ivBytes:ivBytes]
		return append(iv, s.mask(iv, digest)...)
	})
}

// show returns the original name of a stored name that hide created.
func (s *sealed) show(hidden string) string {
	return renamed(hidden, ivBytes+digestBytes, func(b []byte) []byte { return s.mask(b[:ivBytes], b[ivBytes:]) })
}

// mask encrypts or decrypts a digest.
func (s *sealed) mask(iv, digest []byte) []byte {
	block, err := aes.NewCipher(s.key.mask)
	if err != nil {
		panic(err) // a key always has the correct length
	}
	out := make([]byte, len(digest))
	cipher.NewCTR(block, iv).XORKeyStream(out, digest)
	return out
}

// renamed changes the parts of a name that consist of hexadecimal digits for size bytes. It also changes the
// directories that are named after the first two digits of these parts.
func renamed(name string, size int, change func(b []byte) []byte) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		b, err := hex.DecodeString(part)
		if err != nil || len(b) != size || hex.EncodeToString(b) != part {
			continue
		}
		parts[i] = hex.EncodeToString(change(b))
		if i > 0 && parts[i-1] == part[:2] {
			parts[i-1] = parts[i][:2]
		}
	}
	return strings.Join(parts, "/")
}
