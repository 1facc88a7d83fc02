// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// RESTOptions configures the REST API of containers and items.
type RESTOptions struct {
	// Address is the listener address, host:port. Empty or "off" disables it.
	Address string `yaml:"address"`
	// PrimaryKey, SecondaryKey, and ReadOnlyKey are the signing keys: 64 bytes in base64, the same on all nodes. The
	// cluster generates an empty key once and stores it in the metadata.
	PrimaryKey   string `yaml:"primary_key"`
	SecondaryKey string `yaml:"secondary_key"`
	ReadOnlyKey  string `yaml:"read_only_key"`
	// AllowUnindexedOrderBy allows queries to sort by several properties without a composite index. Azure rejects these
	// queries.
	AllowUnindexedOrderBy bool `yaml:"allow_unindexed_order_by"`

	// Optional lets the node start without the REST API if the address is in use.
	Optional bool `yaml:"-"`
}

// off reports whether the REST API is disabled.
func (o *RESTOptions) off() bool { return o.Address == "" || o.Address == "off" }

// restKey is one of the keys, with its names in the configuration and in the cluster's settings.
type restKey struct {
	name, setting string
	configured    func(*RESTOptions) string
	in            func(*rest.Keys) *[]byte
}

var restKeyTable = []restKey{
	{"rest.primary_key", "rest_primary_key", func(o *RESTOptions) string { return o.PrimaryKey },
		func(k *rest.Keys) *[]byte { return &k.Primary }},
	{"rest.secondary_key", "rest_secondary_key", func(o *RESTOptions) string { return o.SecondaryKey },
		func(k *rest.Keys) *[]byte { return &k.Secondary }},
	{"rest.read_only_key", "rest_read_only_key", func(o *RESTOptions) string { return o.ReadOnlyKey },
		func(k *rest.Keys) *[]byte { return &k.ReadOnly }},
}

func (o *RESTOptions) validate() error {
	if _, _, err := net.SplitHostPort(o.Address); err != nil && !o.off() {
		return fmt.Errorf("rest address %q is not host:port", o.Address)
	}
	given := map[string]string{}
	for _, k := range restKeyTable {
		text := k.configured(o)
		if text == "" {
			continue
		}
		if key, err := base64.StdEncoding.DecodeString(text); err != nil || len(key) != rest.KeyBytes {
			return fmt.Errorf("%s is not the base64 of %d bytes: make one with openssl rand -base64 %d | tr -d '\\n', or leave "+
				"it out to have one drawn", k.name, rest.KeyBytes, rest.KeyBytes)
		}
		if other, ok := given[text]; ok {
			return fmt.Errorf("%s and %s are the same: use different keys", other, k.name)
		}
		given[text] = k.name
	}
	return nil
}

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
		r.of, r.keys = state, n.opts.REST.keys(state.Settings)
	}
	return r.keys
}

func (o *RESTOptions) keys(settings map[string]string) *rest.Keys {
	keys := &rest.Keys{}
	for _, k := range restKeyTable {
		text := k.configured(o)
		if text == "" {
			text = settings[k.setting]
		}
		// An unreadable key is empty and admits no client.
		if key, err := base64.StdEncoding.DecodeString(text); err == nil && len(key) == rest.KeyBytes {
			*k.in(keys) = key
		}
	}
	return keys
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
	for _, k := range restKeyTable {
		drawn[k.setting] = drawKey()
	}
	_, err := n.metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		for _, k := range restKeyTable {
			if s.Settings[k.setting] == "" {
				s = s.WithSetting(k.setting, drawn[k.setting])
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
