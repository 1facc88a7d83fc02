// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"sync"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
)

// KeySettings lists the settings of the cluster that hold the generated primary, secondary, and read-only keys.
var KeySettings = []string{"rest_primary_key", "rest_secondary_key", "rest_read_only_key"}

// KeySource returns the configured keys. For keys that are not configured, it returns the keys in the settings of the
// cluster.
type KeySource interface {
	Keys(settings map[string]string) *Keys
}

// Keyring holds the current keys of the account, which are the configured keys and the generated keys in the metadata.
// A Keyring is safe for concurrent use.
type Keyring struct {
	metadata *meta.Keeper
	source   KeySource

	mu   sync.Mutex
	of   *meta.State
	keys *Keys
}

// NewKeyring returns a Keyring.
func NewKeyring(metadata *meta.Keeper, source KeySource) *Keyring {
	return &Keyring{metadata: metadata, source: source}
}

// Keys returns the current keys. The caller must not modify them.
func (r *Keyring) Keys() *Keys {
	state := r.metadata.State()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of != state {
		r.of, r.keys = state, r.source.Keys(state.Settings)
	}
	return r.keys
}

// Generate generates the missing keys.
func (r *Keyring) Generate(ctx context.Context) error {
	generated := map[string]string{}
	for _, name := range KeySettings {
		generated[name] = NewKey()
	}
	_, err := r.metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		for name, key := range generated {
			if s.Settings[name] == "" {
				s = s.WithSetting(name, key)
			}
		}
		return s, nil
	})
	return err
}

// RetryGenerate generates the missing keys of a cluster as soon as the meta partition has a leader. Until then, only
// configured keys are accepted.
func (r *Keyring) RetryGenerate(ctx context.Context, log *slog.Logger) {
	meta.Retry(ctx, log, "cannot generate the keys of the REST API yet", schemachange.Timeout, r.Generate)
}

// NewKey returns a random key in base64.
func NewKey() string {
	key := make([]byte, KeyBytes)
	_, _ = rand.Read(key) // Read never fails
	return base64.StdEncoding.EncodeToString(key)
}
