// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// keyring caches the signing keys of the latest settings.
type keyring struct {
	mu   sync.Mutex
	of   *meta.State
	keys *rest.Keys
}

// restKeys returns the current keys: the configured keys and the generated keys in the metadata.
func (n *Node) restKeys() *rest.Keys {
	state := n.metadata.State()
	r := &n.keyring
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of != state {
		r.of, r.keys = state, n.opts.REST.Keys(state.Settings)
	}
	return r.keys
}

// ensureRESTKeys generates missing keys: on a standalone node before the first client, in a cluster as soon as the meta
// partition has a leader. Until then only configured keys are accepted.
func (n *Node) ensureRESTKeys() error {
	if n.cluster == nil {
		return n.drawRESTKeys(context.Background())
	}
	n.inBackground(func(ctx context.Context) {
		for ctx.Err() == nil {
			err := n.drawRESTKeys(ctx)
			if err == nil || errors.Is(err, meta.ErrClosed) {
				return
			}
			n.log.LogAttrs(ctx, slog.LevelDebug, "cannot generate the keys of the REST API yet",
				slog.String("error", err.Error()))
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return nil
}

func (n *Node) drawRESTKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, schemachange.Timeout)
	defer cancel()
	drawn := map[string]string{}
	for _, name := range options.RESTKeySettings {
		drawn[name] = drawKey()
	}
	_, err := n.metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		for name, key := range drawn {
			if s.Settings[name] == "" {
				s = s.WithSetting(name, key)
			}
		}
		return s, nil
	})
	return err
}

func drawKey() string {
	key := make([]byte, rest.KeyBytes)
	_, _ = rand.Read(key) // it never fails
	return base64.StdEncoding.EncodeToString(key)
}

// shownRESTKeys returns the keys for the owner of the data directory.
func (n *Node) shownRESTKeys() *admin.Keys {
	keys, text := n.restKeys(), base64.StdEncoding.EncodeToString
	shown := &admin.Keys{Primary: text(keys.Primary), Secondary: text(keys.Secondary), ReadOnly: text(keys.ReadOnly)}
	if a := n.RESTAddr(); a != nil {
		scheme := "http"
		if n.opts.TLS.Cert != "" {
			scheme = "https"
		}
		shown.Endpoint = scheme + "://" + a.String() + "/"
	}
	if a := n.CosmosAddr(); a != nil {
		shown.CQL = a.String()
	}
	return shown
}
