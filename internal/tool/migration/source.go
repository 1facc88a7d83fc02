// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// checkSource checks that the source is supported, and returns its version.
func (m *migration) checkSource(ctx context.Context) (version string, err error) {
	c, err := m.source.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("source: %w", err)
	}
	r, err := c.Query("SELECT release_version, partitioner FROM system.local")
	if err == nil && r.ColumnCount != 2 {
		err = fmt.Errorf("it returned %d columns instead of 2", r.ColumnCount)
	}
	if err != nil {
		return "", fmt.Errorf("source: %w", err)
	}
	partitioner := ""
	if err := bulk.EachRow(r, func(row [][]byte) error {
		version, partitioner = string(row[0]), string(row[1])
		return nil
	}); err != nil {
		return "", err
	}
	if !strings.HasSuffix(partitioner, "Murmur3Partitioner") {
		return "", fmt.Errorf("unsupported partitioner %s in the source: Murmur3Partitioner is required. "+
			"Use ilion load with files from the COPY command of cqlsh", partitioner)
	}
	if major, _, _ := strings.Cut(version, "."); len(major) == 1 && major < "4" {
		return "", fmt.Errorf("unsupported release %s of the source: 4.0 or later is required",
			version)
	}
	return version, nil
}

// size is the estimated size of a table.
type size struct{ partitions, bytes int64 }

// estimate reads the sizes in a node's part of the ring, and extrapolates the sizes to the whole ring.
func estimate(ctx context.Context, r *bulk.Reader, n bulk.Name) (size, error) {
	c, err := r.Conn(ctx)
	if err != nil {
		return size{}, err
	}
	answer, err := c.Query("SELECT range_start, range_end, mean_partition_size, partitions_count " +
		"FROM system.size_estimates WHERE keyspace_name = " + bulk.Quote(n.Keyspace) +
		" AND table_name = " + bulk.Quote(n.Table))
	if err == nil && answer.ColumnCount != 4 {
		err = fmt.Errorf("the server returned %d columns instead of 4", answer.ColumnCount)
	}
	if err != nil {
		return size{}, err
	}
	var partitions, bytes, part float64
	if err := bulk.EachRow(answer, func(row [][]byte) error {
		from, errFrom := strconv.ParseInt(string(row[0]), 10, 64)
		to, errTo := strconv.ParseInt(string(row[1]), 10, 64)
		if errFrom != nil || errTo != nil || len(row[2]) != 8 || len(row[3]) != 8 {
			return nil // the other estimates suffice
		}
		count := float64(int64(binary.BigEndian.Uint64(row[3])))
		partitions += count
		bytes += count * float64(int64(binary.BigEndian.Uint64(row[2])))
		part += float64(uint64(to)-uint64(from)) / math.MaxUint64
		return nil
	}); err != nil {
		return size{}, err
	}
	if part <= 0 || part > 1 {
		part = 1
	}
	return size{int64(partitions / part), int64(bytes / part)}, nil
}
