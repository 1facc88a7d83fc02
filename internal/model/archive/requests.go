// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// Snapshot is the response of a cluster that has taken a snapshot for a backup.
type Snapshot struct {
	// ID identifies the snapshot.
	ID       string    `json:"id"`
	Time     time.Time `json:"moment"`
	Cluster  string    `json:"cluster"`
	Software string    `json:"software"`
	// WritePause is the longest time for which the snapshot blocked writers.
	WritePause time.Duration `json:"still"`
	// Metadata holds the plain records of a file (see Manifest.Metadata). MetadataFile is the file's name. Metadata is
	// empty if the tool already has the file.
	Metadata     []byte `json:"records,omitempty"`
	MetadataFile string `json:"described,omitempty"`
	// Nodes lists the nodes whose change buffers may hold the changes between an earlier restore point and this restore
	// point. Incarnation identifies the process of a standalone node. A later process may store different entries at
	// the same log positions.
	Nodes       []string `json:"nodes,omitempty"`
	Incarnation string   `json:"run,omitempty"`
	// Tables lists the tables. The partitions of these tables contain no files yet.
	Tables []Table `json:"tables"`
}

// FileRequest requests the next file of a partition in a snapshot.
type FileRequest struct {
	ID        string `json:"id"`
	Node      string `json:"node"`
	Partition uint64 `json:"partition"`
	// From is the first key of the requested file, without the table ID. From is empty for the first file.
	From []byte `json:"from,omitempty"`
	// KnownFiles lists files that need not be sent. It contains at most KnownFilesMax files.
	KnownFiles []string `json:"known,omitempty"`
	// Entries requests log entries instead of a file.
	Entries []EntryRange `json:"wanted,omitempty"`
}

// EntryRange selects the log entries of a partition with indexes above After and up to Upto.
type EntryRange struct {
	Partition uint64 `json:"partition"`
	After     uint64 `json:"after"`
	Upto      uint64 `json:"upto"`
}

// KnownFilesMax is the maximum length of FileRequest.KnownFiles.
const KnownFilesMax = 4096

// FileResponse is the requested file. If the partition has no records at or after the requested key, the response
// contains no file, and File has no name.
type FileResponse struct {
	File File `json:"file"`
	// Table is the ID of the table to which the rows belong, if the file is sent for a restore.
	Table uint32 `json:"table,omitempty"`
	// Batches, if not nil, describes how to process a file of atomic batches.
	Batches *BatchReplay `json:"batches,omitempty"`
	// Next is the key at which the next file starts. It is empty after the last file.
	Next []byte `json:"next,omitempty"`
	// Data is the content of the file, or nil if the requester already has it.
	Data []byte `json:"-"`
}

// Append appends the encoded response (see appendHeaded).
func (p *FileResponse) Append(dst []byte) ([]byte, error) { return appendHeaded(dst, p, p.Data) }

// DecodeFileResponse reads the output of Append.
func DecodeFileResponse(b []byte) (*FileResponse, error) {
	p := new(FileResponse)
	var err error
	p.Data, err = splitHead(b, p)
	return p, err
}

// appendHeaded appends the length of the header as a u32, the header as JSON, and the data.
func appendHeaded(dst []byte, head any, data []byte) ([]byte, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
	return append(append(dst, text...), data...), nil
}

// splitHead decodes the header and returns the data. It returns nil if the response has no data.
func splitHead(b []byte, head any) (data []byte, err error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
		return nil, fmt.Errorf("backup file response: %w", ErrDamaged)
	}
	n := 4 + int(binary.BigEndian.Uint32(b))
	if err := json.Unmarshal(b[4:n], head); err != nil {
		return nil, fmt.Errorf("backup file response: %w: %w", ErrDamaged, err)
	}
	if n < len(b) {
		data = b[n:]
	}
	return data, nil
}

// Restore is the request to restore a backup into a cluster.
type Restore struct {
	// Backup is the ID of the manifest. With this ID, an interrupted restore can be resumed.
	Backup string `json:"backup"`
	// Metadata holds the metadata of the backup, as the plain records of a file.
	Metadata []byte          `json:"records"`
	Tables   []RestoredTable `json:"tables"`
	// Roles means that missing roles are also restored.
	Roles bool `json:"roles,omitempty"`
}

// RestoredTable is a table that will be restored, with its new name. In the response, it includes the old and the new
// ID.
type RestoredTable struct {
	Keyspace    string `json:"keyspace"`
	Name        string `json:"name"`
	NewKeyspace string `json:"as_keyspace"`
	NewName     string `json:"as"`
	OldID       uint32 `json:"was,omitempty"`
	NewID       uint32 `json:"is,omitempty"`
	// Resumed means that the restore of the table was started by an earlier request.
	Resumed bool `json:"begun,omitempty"`
}

// BatchReplay specifies how a node finishes the atomic batches in a file.
type BatchReplay struct {
	// Tables maps the table IDs of the backup to the table IDs of the cluster. Other tables are skipped.
	Tables map[uint32]uint32 `json:"tables"`
	// Applied lists the batch parts that the restored rows already include. BatchPartName names each part.
	Applied []string `json:"applied"`
}

// BatchPartName returns the name of a part of an atomic batch.
func BatchPartName(batch [16]byte, part uint64) string { return fmt.Sprintf("%x/%d", batch, part) }
