// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/archive"
)

const (
	// clusterName is the file that contains the ID of the cluster to which a repository belongs.
	clusterName = "backups/cluster"
	clusterWord = "ilion-cluster 1 "
)

// Owner returns the ID of the cluster to which a repository belongs. It returns an empty string if the repository does
// not belong to a cluster. If a repository does not contain this file, it belongs to the cluster of its backups.
func Owner(ctx context.Context, t Target) (string, error) {
	data, err := t.Get(ctx, clusterName)
	if err == nil {
		return decodeOwner(data)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	ids, err := List(ctx, t)
	if err != nil {
		return "", err
	}
	var clusters []string
	for _, id := range ids {
		m, err := Load(ctx, t, id)
		if err != nil {
			return "", err
		}
		if !slices.Contains(clusters, m.Cluster) {
			clusters = append(clusters, m.Cluster)
		}
	}
	switch len(clusters) {
	case 0:
		return "", nil
	case 1:
		return clusters[0], nil
	}
	return "", fmt.Errorf("the repository contains backups of %d clusters (%s). Specify the ID of a backup, and use a "+
		"separate repository for new backups", len(clusters), strings.Join(clusters, ", "))
}

// claim binds a repository to a cluster. It fails if the repository belongs to another cluster.
func claim(ctx context.Context, t Target, cluster string) error {
	owner, err := Owner(ctx, t)
	if err == nil && (owner == "" || owner == cluster) {
		if has, hasErr := t.Has(ctx, clusterName); hasErr == nil && has {
			return nil
		}
		if err = t.Put(ctx, clusterName, encodeOwner(cluster)); err == nil {
			owner, err = Owner(ctx, t) // another cluster may have written the file at the same time
		}
	}
	if err != nil {
		return err
	}
	if owner != cluster {
		return fmt.Errorf("the repository belongs to cluster %s, but this node belongs to cluster %s. Use a separate "+
			"repository for each cluster", owner, cluster)
	}
	return nil
}

func encodeOwner(cluster string) []byte {
	sum := sha256.Sum256([]byte(cluster))
	return []byte(clusterWord + hex.EncodeToString(sum[:]) + "\n" + cluster)
}

func decodeOwner(data []byte) (string, error) {
	_, cluster, _ := bytes.Cut(data, []byte("\n"))
	if !archive.ValidID(string(cluster)) || !bytes.Equal(data, encodeOwner(string(cluster))) {
		return "", fmt.Errorf("%s: %w: it does not contain a cluster ID", clusterName, archive.ErrDamaged)
	}
	return string(cluster), nil
}
