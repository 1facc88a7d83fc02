// SPDX-License-Identifier: Apache-2.0

package options

import (
	"encoding/base64"
	"fmt"
	"net"

	"github.com/ilion-db/ilion/internal/server/rest"
)

// REST configures the REST API of containers and items.
type REST struct {
	// Address is the address of the listener in the form host:port. If Address is empty or "off", the listener is
	// disabled.
	Address string `yaml:"address"`
	// PrimaryKey, SecondaryKey, and ReadOnlyKey are the signing keys, which are 64 bytes in base64. All nodes must
	// have the same keys. If a key is empty, the cluster generates it once and stores it in the metadata.
	PrimaryKey   string `yaml:"primary_key"`
	SecondaryKey string `yaml:"secondary_key"`
	ReadOnlyKey  string `yaml:"read_only_key"`
	// AllowUnindexedOrderBy allows queries to sort by several properties without a composite index. Azure rejects such
	// queries.
	AllowUnindexedOrderBy bool `yaml:"allow_unindexed_order_by"`

	// Optional lets the node start without the REST API if the address is in use.
	Optional bool `yaml:"-"`
}

// Off reports whether the REST API is disabled.
func (r *REST) Off() bool { return r.Address == "" || r.Address == "off" }

// restKeyOptions lists the options for the keys in the order of rest.KeySettings.
var restKeyOptions = []string{"rest.primary_key", "rest.secondary_key", "rest.read_only_key"}

// configured returns the configured keys in base64 in the order of rest.KeySettings.
func (r *REST) configured() []string { return []string{r.PrimaryKey, r.SecondaryKey, r.ReadOnlyKey} }

func (r *REST) validate() error {
	if _, _, err := net.SplitHostPort(r.Address); err != nil && !r.Off() {
		return fmt.Errorf("rest address %q is not host:port", r.Address)
	}
	given := map[string]string{}
	for i, text := range r.configured() {
		if text == "" {
			continue
		}
		if key, err := base64.StdEncoding.DecodeString(text); err != nil || len(key) != rest.KeyBytes {
			return fmt.Errorf("%s must be %d bytes in base64: create a key with openssl rand -base64 %d | tr -d '\\n', or omit "+
				"the option to generate one", restKeyOptions[i], rest.KeyBytes, rest.KeyBytes)
		}
		if other, ok := given[text]; ok {
			return fmt.Errorf("%s and %s are the same: use different keys", other, restKeyOptions[i])
		}
		given[text] = restKeyOptions[i]
	}
	return nil
}

// Keys returns the configured keys. For keys that are not configured, it returns the keys in the settings of the
// cluster. A key that cannot be decoded is empty and admits no client.
func (r *REST) Keys(settings map[string]string) *rest.Keys {
	keys := &rest.Keys{}
	into := []*[]byte{&keys.Primary, &keys.Secondary, &keys.ReadOnly}
	for i, text := range r.configured() {
		if text == "" {
			text = settings[rest.KeySettings[i]]
		}
		if key, err := base64.StdEncoding.DecodeString(text); err == nil && len(key) == rest.KeyBytes {
			*into[i] = key
		}
	}
	return keys
}
