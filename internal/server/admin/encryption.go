// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/replica/encryption"
)

// EncryptionStatus describes the encryption of a data directory. It is an *encryption.Keys.
type EncryptionStatus interface {
	// StatusWithin returns the status with a count of the files that is at most as old as age.
	StatusWithin(age time.Duration) (encryption.Status, error)
	// Summary returns the status without a count of the files.
	Summary() encryption.Status
	// Rotations returns the number of data keys that were replaced since the start.
	Rotations() uint64
}

// Encryption manages the keys of the data directory. It is an *encryption.Keys.
type Encryption interface {
	EncryptionStatus
	// Rotate reads the store key again and replaces the data key. POST /encryption/rotate calls it.
	Rotate(ctx context.Context) (encryption.Rotated, error)
	// Rewrite encrypts the tables with the newest data key until a time. POST /encryption/rewrite calls it.
	Rewrite(ctx context.Context, until time.Time) (done encryption.Count, more bool, err error)
}

// countAge is the maximum age of the count of files in metrics and status pages, because every file is opened to count
// it.
const countAge = time.Minute

// rewriteTime is the time after which a request to rewrite files stops before the next file.
const rewriteTime = 20 * time.Second

// Rewritten is the result of POST /encryption/rewrite.
type Rewritten struct {
	encryption.Count
	// More is set if files remain. The request must then be repeated.
	More bool `json:"more"`
}

var errNotEncrypted = errors.New("the data directory is not encrypted: set storage.encryption.key_file or " +
	"storage.encryption.key_command, and restart the node")

// addEncryption adds the status of the encryption and the commands that change the keys.
func (h *handler) addEncryption() {
	h.get("encryption", func(w http.ResponseWriter, _ *http.Request) {
		if h.Encryption == nil {
			write(w, "", errNotEncrypted)
			return
		}
		s, err := h.Encryption.StatusWithin(0)
		if err != nil {
			write(w, "", err)
			return
		}
		writeJSON(w, s)
	})
	h.command("encryption/rotate", func(r *http.Request) (string, error) {
		if h.Encryption == nil {
			return "", errNotEncrypted
		}
		done, err := h.Encryption.Rotate(r.Context())
		switch {
		case err != nil:
			return "", err
		case done.Previous == "":
			return fmt.Sprintf("new data key %s; the store key %s has not changed", done.DataKey, done.StoreKey), nil
		}
		return fmt.Sprintf("new data key %s; the store key %s replaced %s", done.DataKey, done.StoreKey,
			done.Previous), nil
	})
	h.post("encryption/rewrite", func(w http.ResponseWriter, r *http.Request) {
		if h.Encryption == nil {
			write(w, "", errNotEncrypted)
			return
		}
		var out Rewritten
		var err error
		if out.Count, out.More, err = h.Encryption.Rewrite(r.Context(), time.Now().Add(rewriteTime)); err != nil {
			write(w, "", err)
			return
		}
		writeJSON(w, out)
	})
}

// encryptionNotes describes the encryption of the data directory.
func (n *Reporter) encryptionNotes() []string {
	if n.Encryption == nil {
		return nil
	}
	s, err := n.Encryption.StatusWithin(countAge)
	switch {
	case err != nil:
		return []string{"cannot count the encrypted files: " + err.Error()}
	case !s.Enabled:
		return []string{fmt.Sprintf("encryption is being switched off: %.1f %% of the data is still encrypted", 100*s.Share)}
	}
	return []string{fmt.Sprintf("%.1f %% of the data directory is encrypted (store key %s)", 100*s.Share, s.StoreKey)}
}

var (
	encryptionBytesDesc = prometheus.NewDesc("ilion_encryption_bytes",
		"Bytes of the data directory by encryption: encrypted, outdated (with an older data key), and plain.",
		[]string{"state"}, nil)
	encryptionFigures = []figure{
		level("encryption_enabled", "1 if new files are encrypted, otherwise 0.", func(n *Reporter) float64 {
			if n.Encryption.Summary().Enabled {
				return 1
			}
			return 0
		}),
		level("encryption_data_key_age_seconds", "Age of the data key of new files.",
			func(n *Reporter) float64 { return time.Since(n.Encryption.Summary().Created).Seconds() }),
		level("encryption_data_keys", "Data keys in the registry.",
			func(n *Reporter) float64 { return float64(n.Encryption.Summary().DataKeys) }),
		count("encryption_data_keys_replaced_total", "Data keys replaced since the start.",
			func(n *Reporter) float64 { return float64(n.Encryption.Rotations()) }),
	}
)

// collectEncryption sends the metrics of an encrypted data directory.
func (n *Reporter) collectEncryption(out chan<- prometheus.Metric) {
	if n.Encryption == nil {
		return
	}
	for _, f := range encryptionFigures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(n))
	}
	s, err := n.Encryption.StatusWithin(countAge)
	if err != nil {
		return
	}
	for _, c := range []struct {
		state string
		bytes int64
	}{{"encrypted", s.Encrypted.Bytes}, {"outdated", s.Outdated.Bytes}, {"plain", s.Plain.Bytes}} {
		out <- prometheus.MustNewConstMetric(encryptionBytesDesc, prometheus.GaugeValue, float64(c.bytes), c.state)
	}
}
