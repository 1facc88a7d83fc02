// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"io"
)

// A sealed record is a unit of a file that is appended to, such as the audit log, or a whole small file:
//
//	0  magic
//	8  ID of the data key
//	16 length of the encrypted bytes, including the tag
//	20 nonce
//	32 bytes encrypted with AES-256-GCM, which also authenticates the bytes before the nonce
const (
	recordMagic  = "ilionrec"
	recordHeader = 32
	recordNonce  = 20
	recordTag    = 16
)

// Seal returns b as a sealed record, or b itself if new files are not encrypted.
func (k *Keys) Seal(b []byte) ([]byte, error) {
	if k == nil {
		return b, nil
	}
	key, err := k.forWrite()
	if err != nil || key == nil {
		return b, err
	}
	out := make([]byte, recordHeader, recordHeader+len(b)+recordTag)
	copy(out, recordMagic)
	binary.LittleEndian.PutUint64(out[8:], uint64(key.id))
	binary.LittleEndian.PutUint32(out[16:], uint32(len(b)+recordTag))
	_, _ = rand.Read(out[recordNonce:recordHeader]) // does not fail
	k.written.Add(int64(len(b)))
	return key.records.Seal(out, out[recordNonce:recordHeader], b, out[:recordNonce]), nil
}

// Reveal decrypts the records of a file and writes their contents to w. Bytes before, between, and after records are
// copied, because they were written without encryption. damaged is the number of bytes of records that are truncated,
// have been modified, or are encrypted with an unknown key; they are skipped.
func (k *Keys) Reveal(text []byte, w io.Writer) (damaged int64, err error) {
	for len(text) > 0 {
		if !bytes.HasPrefix(text, []byte(recordMagic)) {
			n := len(text)
			if at := bytes.Index(text, []byte(recordMagic)); at >= 0 {
				n = at
			}
			if _, err := w.Write(text[:n]); err != nil {
				return damaged, err
			}
			text = text[n:]
			continue
		}
		open, size := k.openRecord(text)
		if size == 0 { // search for the next record
			n := len(text)
			if at := bytes.Index(text[1:], []byte(recordMagic)); at >= 0 {
				n = at + 1
			}
			damaged += int64(n)
			text = text[n:]
			continue
		}
		if _, err := w.Write(open); err != nil {
			return damaged, err
		}
		text = text[size:]
	}
	return damaged, nil
}

// openRecord decrypts the record at the start of text. size is its length, or 0 if it is damaged.
func (k *Keys) openRecord(text []byte) (open []byte, size int) {
	if len(text) < recordHeader+recordTag {
		return nil, 0
	}
	key := k.lookup(KeyID(binary.LittleEndian.Uint64(text[8:])))
	size = recordHeader + int(binary.LittleEndian.Uint32(text[16:]))
	if key == nil || size > len(text) {
		return nil, 0
	}
	open, err := key.records.Open(nil, text[recordNonce:recordHeader], text[recordHeader:size], text[:recordNonce])
	if err != nil {
		return nil, 0
	}
	return open, size
}
