// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/feature"
)

const (
	// RegistryFile is the name of the registry in a data directory. registryCopy is a second copy, which is used if the
	// first is damaged.
	RegistryFile  = "encryption.keys"
	registryCopy  = RegistryFile + ".copy"
	registryTemp  = RegistryFile + ".new"
	registryBytes = 16 << 20 // maximum size
	// registryFormat is the version of the format.
	registryFormat = 1
	// replacedMax is the number of replaced store keys that a registry remembers.
	replacedMax = 32
)

// IsRegistry reports whether a file in a data directory belongs to the registry. A directory that contains only such
// files is an empty data directory.
func IsRegistry(name string) bool { return strings.HasPrefix(name, RegistryFile) }

// registry is the file that holds the data keys. Its text is a line of JSON and a line with a checksum, because damage
// must not look like another fingerprint.
type registry struct {
	Format int `json:"format"`
	// StoreKey is the fingerprint of the store key that encrypts Sealed. Replaced are the previous store keys.
	StoreKey string        `json:"store_key"`
	Replaced []ReplacedKey `json:"replaced,omitempty"`
	// Generation is incremented by every write.
	Generation uint64 `json:"generation"`
	// Sealed is a sealedKeys in AES-256-GCM. The fields above are authenticated.
	Nonce  []byte `json:"nonce,omitempty"`
	Sealed []byte `json:"sealed,omitempty"`
}

// ReplacedKey is a store key that another key has replaced.
type ReplacedKey struct {
	Fingerprint string    `json:"fingerprint"`
	Replaced    time.Time `json:"replaced"`
}

// sealedKeys is the encrypted part of a registry.
type sealedKeys struct {
	// Active is the key of new files.
	Active KeyID       `json:"active"`
	Keys   []storedKey `json:"keys"`
}

type storedKey struct {
	ID      KeyID     `json:"id"`
	Created time.Time `json:"created"`
	Secret  []byte    `json:"secret"`
	Bits    int       `json:"bits"`
}

// authenticated returns the text of the fields that are authenticated but not encrypted.
func (r registry) authenticated() ([]byte, error) {
	r.Nonce, r.Sealed = nil, nil
	return json.Marshal(r)
}

// seal encrypts keys with a store key.
func (r *registry) seal(k *StoreKey, keys *sealedKeys) error {
	r.StoreKey = k.fingerprint
	open, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	header, err := r.authenticated()
	if err != nil {
		return err
	}
	r.Nonce = make([]byte, k.registry.NonceSize())
	_, _ = rand.Read(r.Nonce) // does not fail
	r.Sealed = k.registry.Seal(nil, r.Nonce, open, header)
	return nil
}

var errRegistryDamaged = errors.New("it is damaged")

// unseal decrypts the keys.
func (r *registry) unseal(k *StoreKey) (*sealedKeys, error) {
	header, err := r.authenticated()
	if err != nil {
		return nil, err
	}
	if len(r.Nonce) != k.registry.NonceSize() {
		return nil, errRegistryDamaged
	}
	open, err := k.registry.Open(nil, r.Nonce, r.Sealed, header)
	if err != nil {
		return nil, errRegistryDamaged
	}
	keys := new(sealedKeys)
	if err := json.Unmarshal(open, keys); err != nil {
		return nil, errRegistryDamaged
	}
	return keys, nil
}

// replaced returns the time at which the key with a fingerprint was replaced.
func (r *registry) replaced(fingerprint string) (at time.Time, ok bool) {
	i := slices.IndexFunc(r.Replaced, func(k ReplacedKey) bool { return k.Fingerprint == fingerprint })
	if i < 0 {
		return time.Time{}, false
	}
	return r.Replaced[i].Replaced, true
}

func registrySum(text []byte) string {
	return fmt.Sprintf("sum %08x\n", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// text returns the content of the file.
func (r *registry) text() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	return append(b, registrySum(b)...), nil
}

// parseRegistry decodes the content of the file.
func parseRegistry(text []byte) (*registry, error) {
	at := bytes.IndexByte(text, '\n') + 1
	if at == 0 || string(text[at:]) != registrySum(text[:at]) {
		return nil, errRegistryDamaged
	}
	r := new(registry)
	if err := json.Unmarshal(text[:at], r); err != nil || r.Format < 1 {
		return nil, errRegistryDamaged
	}
	if r.Format > registryFormat {
		return nil, &feature.Newer{What: "the registry of data keys", Unit: "format", Has: uint64(r.Format),
			Oldest: 1, Newest: registryFormat}
	}
	return r, nil
}

// loaded is a registry as read from the disk.
type loaded struct {
	*registry // nil if none exists
	// outdated is set if one of the two files is missing, damaged, or older than the other.
	outdated bool
}

// loadRegistry reads the registry of a directory. It uses the copy if the first file is missing or damaged.
func loadRegistry(fs vfs.FS, dir string) (loaded, error) {
	first, err := readRegistry(fs, fs.PathJoin(dir, RegistryFile))
	second, copyErr := readRegistry(fs, fs.PathJoin(dir, registryCopy))
	switch {
	case err == nil && copyErr == nil:
		return loaded{first, first.Generation != second.Generation}, nil
	case err == nil:
		return loaded{first, true}, nil
	case copyErr == nil && !isNewer(err):
		return loaded{second, true}, nil
	case isAbsent(err) && isAbsent(copyErr):
		return loaded{}, nil
	case isAbsent(err):
		err = copyErr
	}
	return loaded{}, fmt.Errorf("cannot read %s: %w. Restore it from a copy of the directory, or replace the node",
		fs.PathJoin(dir, RegistryFile), err)
}

func isNewer(err error) bool {
	newer := (*feature.Newer)(nil)
	return errors.As(err, &newer)
}

func readRegistry(fs vfs.FS, name string) (*registry, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, registryBytes))
	if err != nil {
		return nil, err
	}
	return parseRegistry(text)
}

// writeRegistry durably replaces both files of a registry, one after the other.
func writeRegistry(fs vfs.FS, dir string, r *registry) error {
	text, err := r.text()
	if err != nil {
		return err
	}
	for _, name := range []string{RegistryFile, registryCopy} {
		if err := replaceFile(fs, dir, name, text); err != nil {
			return fmt.Errorf("cannot write %s: %w", fs.PathJoin(dir, name), err)
		}
	}
	return nil
}

// replaceFile durably replaces a file.
func replaceFile(fs vfs.FS, dir, name string, text []byte) error {
	temp := fs.PathJoin(dir, registryTemp)
	f, err := fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Clone(text)) // Write may modify its argument
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(temp, fs.PathJoin(dir, name)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// isAbsent reports whether an error means that a file does not exist. If a file has the name of the directory, the
// store reports this later.
func isAbsent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
