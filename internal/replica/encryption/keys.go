// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// RotationMin is the minimum of Options.Rotation.
	RotationMin = time.Minute
	// rotationBytes is the number of bytes after which a data key is replaced regardless of its age.
	rotationBytes = 1 << 40
)

// Options configure the encryption of a data directory.
type Options struct {
	// Key is the source of the store key. Without a key, the directory must not be encrypted.
	Key KeySource
	// Old is the source of the previous store key, which is needed if the key was changed while the node was stopped.
	Old KeySource
	// Rotation is the age at which a data key is replaced.
	Rotation time.Duration
	// Bits is the size of the AES keys that encrypt the contents of files, 128 or 256. 0 means 128. If the newest data
	// key has another size, RotateIfDue replaces it.
	Bits int
	// Decrypt is set to switch encryption off: new files are not encrypted.
	Decrypt bool
	// KeepPlain rejects a key for a directory that is not encrypted, instead of switching encryption on.
	KeepPlain bool
	// Dirs are the directories whose files are counted and rewritten. The first contains the registry.
	Dirs []string
}

// Keys holds the keys of a data directory. It is safe for concurrent use.
type Keys struct {
	fs vfs.FS // without encryption
	o  Options

	mu       sync.Mutex // held while the registry changes
	store    *StoreKey
	registry registry
	all      atomic.Pointer[map[KeyID]*dataKey]
	active   atomic.Pointer[dataKey] // of new files
	// pending is set until the registry has been written for the first time (EN3). Open changes no file, because
	// another process may use the directory.
	pending atomic.Bool
	written atomic.Int64 // bytes encrypted with the active key by this process
	rotated atomic.Uint64
	// moving is held while a file is removed, renamed, or replaced by Rewrite. writing contains the tables that are
	// being written.
	moving  sync.Mutex
	writing map[string]bool
	// rewriting is held by Rewrite.
	rewriting sync.Mutex
	// counting guards the last count of the files and its time.
	counting  sync.Mutex
	counted   Usage
	countedAt time.Time
}

// dir returns the directory of the registry.
func (k *Keys) dir() string { return k.o.Dirs[0] }

// Open reads the keys of the directory o.Dirs[0] in fs. It returns nil if the directory is not encrypted and no key is
// configured. It changes no file. The first file that an FS creates makes changes durable; the caller must have locked
// the directory by then.
func Open(ctx context.Context, fs vfs.FS, o Options) (*Keys, error) {
	if o.Bits == 0 {
		o.Bits = 128
	}
	k := &Keys{fs: fs, o: o, writing: map[string]bool{}}
	found, err := loadRegistry(fs, k.dir())
	if err != nil {
		return nil, err
	}
	if found.registry == nil {
		return k.openPlain(ctx)
	}
	if !o.Key.Configured() {
		return nil, fmt.Errorf("it is encrypted with the store key %s, but no key is configured. "+
			"Set storage.encryption.key_file or storage.encryption.key_command", found.StoreKey)
	}
	k.registry = *found.registry
	keys, err := k.unlock(ctx)
	if err != nil {
		return nil, err
	}
	if found.outdated {
		k.pending.Store(true)
	}
	return k, k.install(keys)
}

// openPlain opens a directory without a registry.
func (k *Keys) openPlain(ctx context.Context) (*Keys, error) {
	encrypted, err := k.anyEncrypted()
	if err != nil {
		return nil, err
	}
	if encrypted {
		return nil, fmt.Errorf("its files are encrypted, but the file %s is missing. Restore it from a copy of the "+
			"directory, or replace the node", k.fs.PathJoin(k.dir(), RegistryFile))
	}
	if !k.o.Key.Configured() {
		return nil, nil
	}
	if k.o.KeepPlain {
		return nil, errors.New("a store key is given, but the directory is not encrypted. Omit the key")
	}
	if k.store, err = k.o.Key.Read(ctx); err != nil {
		return nil, err
	}
	if k.o.Decrypt {
		return nil, nil // already switched off
	}
	key, err := newDataKey(time.Now(), k.o.Bits)
	if err != nil {
		return nil, err
	}
	k.registry = registry{Format: registryFormat}
	k.pending.Store(true)
	k.setKeys(map[KeyID]*dataKey{key.id: key}, key)
	return k, nil
}

// unlock reads the store key and decrypts the registry with it, or with the old key.
func (k *Keys) unlock(ctx context.Context) (*sealedKeys, error) {
	want := k.registry.StoreKey
	given, err := k.o.Key.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w. The directory is encrypted with the store key %s", err, want)
	}
	k.store = given
	if given.fingerprint == want {
		return k.unseal(given)
	}
	if at, ok := k.registry.replaced(given.fingerprint); ok {
		return nil, fmt.Errorf("the store key %s from %s is an old key, which %s replaced on %s. Configure the key %s",
			given.fingerprint, k.o.Key, want, at.UTC().Format(time.RFC3339), want)
	}
	if !k.o.Old.Configured() {
		return nil, fmt.Errorf("wrong store key: %s contains the key %s, but the directory is encrypted with %s. "+
			"Configure that key, or set storage.encryption.old_key_file to it to replace it", k.o.Key, given.fingerprint,
			want)
	}
	old, err := k.o.Old.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w. The directory is encrypted with the store key %s", err, want)
	}
	if old.fingerprint != want {
		return nil, fmt.Errorf("wrong store key: %s contains the key %s and %s the old key %s, but the directory is "+
			"encrypted with %s", k.o.Key, given.fingerprint, k.o.Old, old.fingerprint, want)
	}
	keys, err := k.unseal(old)
	if err == nil {
		k.registry = k.registry.withReplaced(want, time.Now())
		k.pending.Store(true)
	}
	return keys, err
}

func (k *Keys) unseal(key *StoreKey) (*sealedKeys, error) {
	keys, err := k.registry.unseal(key)
	if err != nil {
		return nil, fmt.Errorf("cannot decrypt %s with the store key %s: %w. Restore it from a copy of the directory, "+
			"or replace the node", k.fs.PathJoin(k.dir(), RegistryFile), key.fingerprint, err)
	}
	return keys, nil
}

// withReplaced returns a registry that remembers one more replaced store key.
func (r registry) withReplaced(fingerprint string, now time.Time) registry {
	r.Replaced = append(slices.Clone(r.Replaced), ReplacedKey{fingerprint, now.UTC().Truncate(time.Second)})
	r.Replaced = r.Replaced[max(0, len(r.Replaced)-replacedMax):]
	return r
}

// install derives the data keys.
func (k *Keys) install(keys *sealedKeys) error {
	all := map[KeyID]*dataKey{}
	for _, s := range keys.Keys {
		var err error
		if all[s.ID], err = deriveDataKey(s.ID, s.Created, s.Secret, s.Bits); err != nil {
			return fmt.Errorf("cannot read %s: %w", k.fs.PathJoin(k.dir(), RegistryFile), err)
		}
	}
	active := all[keys.Active]
	if active == nil {
		return fmt.Errorf("cannot read %s: %w", k.fs.PathJoin(k.dir(), RegistryFile), errRegistryDamaged)
	}
	k.setKeys(all, active)
	return nil
}

func (k *Keys) setKeys(all map[KeyID]*dataKey, active *dataKey) {
	k.all.Store(&all)
	k.active.Store(active)
	k.written.Store(0)
}

// lookup returns a data key, or nil.
func (k *Keys) lookup(id KeyID) *dataKey { return (*k.all.Load())[id] }

// forWrite returns the key for a new file, or nil if new files are not encrypted. The registry is then durable.
func (k *Keys) forWrite() (*dataKey, error) {
	if k.pending.Load() {
		if err := k.writePending(); err != nil {
			return nil, err
		}
	}
	if k.o.Decrypt {
		return nil, nil
	}
	return k.active.Load(), nil
}

// writePending writes the registry for the first time since Open.
func (k *Keys) writePending() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.pending.Load() {
		return nil
	}
	now, err := loadRegistry(k.fs, k.dir())
	if err != nil {
		return err
	}
	if generation := now.generation(); generation != k.registry.Generation {
		return errors.New("another process has changed the data keys. Start the node again")
	}
	if err := k.write(k.store, k.registry, *k.all.Load(), k.active.Load()); err != nil {
		return err
	}
	k.pending.Store(false)
	return nil
}

func (l loaded) generation() uint64 {
	if l.registry == nil {
		return 0
	}
	return l.registry.Generation
}

// write writes a registry and then uses it. The caller must hold mu.
func (k *Keys) write(store *StoreKey, r registry, all map[KeyID]*dataKey, active *dataKey) error {
	keys := &sealedKeys{Active: active.id}
	for _, key := range all {
		keys.Keys = append(keys.Keys, storedKey{key.id, key.created, key.secret, key.bits})
	}
	slices.SortFunc(keys.Keys, func(a, b storedKey) int { return a.Created.Compare(b.Created) })
	r.Generation++
	if err := r.seal(store, keys); err != nil {
		return err
	}
	if err := writeRegistry(k.fs, k.dir(), &r); err != nil {
		return err
	}
	k.store, k.registry = store, r
	return nil
}

// Rotated is the result of Rotate.
type Rotated struct {
	// StoreKey is the fingerprint of the store key, and Previous the fingerprint of the key that it has replaced. It is
	// empty if the key has not changed.
	StoreKey, Previous string
	// DataKey is the new data key.
	DataKey KeyID
}

// Rotate reads the store key again. If it has changed, Rotate encrypts the registry with it. Rotate also replaces the
// data key. Existing files stay readable.
func (k *Keys) Rotate(ctx context.Context) (Rotated, error) {
	given, err := k.o.Key.Read(ctx)
	if err != nil {
		return Rotated{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r, previous := k.registry, k.store.fingerprint
	if at, ok := r.replaced(given.fingerprint); ok {
		return Rotated{}, fmt.Errorf("the store key %s from %s is an old key, which was replaced on %s. "+
			"Configure a new key or the current key %s", given.fingerprint, k.o.Key, at.UTC().Format(time.RFC3339),
			previous)
	}
	if given.fingerprint != previous {
		r = r.withReplaced(previous, time.Now())
	} else {
		previous = ""
	}
	id, err := k.addDataKey(given, r)
	return Rotated{StoreKey: given.fingerprint, Previous: previous, DataKey: id}, err
}

// addDataKey writes a registry with a new data key and uses it. The caller must hold mu.
func (k *Keys) addDataKey(store *StoreKey, r registry) (KeyID, error) {
	key, err := newDataKey(time.Now(), k.o.Bits)
	if err != nil {
		return 0, err
	}
	all := maps.Clone(*k.all.Load())
	all[key.id] = key
	if err := k.write(store, r, all, key); err != nil {
		return 0, err
	}
	k.setKeys(all, key)
	k.pending.Store(false)
	k.rotated.Add(1)
	return key.id, nil
}

// RotateIfDue replaces the data key if it is too old, has another size than configured, or has encrypted too many
// bytes. It reports whether it did so.
func (k *Keys) RotateIfDue(now time.Time) (KeyID, bool, error) {
	if key := k.active.Load(); k.o.Decrypt || k.pending.Load() ||
		now.Sub(key.created) < k.o.Rotation && key.bits == k.o.Bits && k.written.Load() < rotationBytes {
		return 0, false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	id, err := k.addDataKey(k.store, k.registry)
	return id, err == nil, err
}

// CopyRegistry writes a copy of the registry to the directory of a copy of the data.
func (k *Keys) CopyRegistry(dir string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return writeRegistry(k.fs, dir, &k.registry)
}

// Forget removes the registry if encryption is switched off and no file is encrypted. It reports whether it
// did so.
func (k *Keys) Forget() (bool, error) {
	if !k.o.Decrypt {
		return false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	usage, err := k.scan()
	if err != nil || usage.Encrypted.Files+usage.Outdated.Files > 0 {
		return false, err
	}
	for _, name := range []string{registryCopy, RegistryFile} {
		if err := k.fs.Remove(k.fs.PathJoin(k.dir(), name)); err != nil {
			return false, err
		}
	}
	return true, syncDir(k.fs, k.dir())
}
