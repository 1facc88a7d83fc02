// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// Taken is what a cluster answers when a moment was taken: what there is to be read.
type Snapshot struct {
	// ID names the moment.
	ID       string    `json:"id"`
	Time     time.Time `json:"moment"`
	Cluster  string    `json:"cluster"`
	Software string    `json:"software"`
	// Still is for how long writers had to wait at most.
	WritePause time.Duration `json:"still"`
	// Records are plain bytes of a file: see Manifest.Records. Described is its name; there are no bytes if the tool
	// knows it.
	Metadata     []byte `json:"records,omitempty"`
	MetadataFile string `json:"described,omitempty"`
	// Nodes are those whose journals may have what came between this moment and an earlier one, if it is a mark. Run
	// names the process of a node that stands alone: a later one may have other entries in the same places of its logs.
	Nodes       []string `json:"nodes,omitempty"`
	Incarnation string   `json:"run,omitempty"`
	// Tables have partitions without files.
	Tables []Table `json:"tables"`
}

// Asked is what is asked for of a partition at a moment: the next file.
type FileRequest struct {
	ID        string `json:"id"`
	Node      string `json:"node"`
	Partition uint64 `json:"partition"`
	// From is the key where the file begins, without the table's id; empty for the first.
	From []byte `json:"from,omitempty"`
	// Known are names of files that need not be sent, KnownMax at most.
	KnownFiles []string `json:"known,omitempty"`
	// Wanted are the entries of logs that are asked for instead.
	Entries []EntryRange `json:"wanted,omitempty"`
}

// Wanted are the entries of a partition's log above After, up to Upto.
type EntryRange struct {
	Partition uint64 `json:"partition"`
	After     uint64 `json:"after"`
	Upto      uint64 `json:"upto"`
}

// KnownMax bounds the names of an Asked.
const KnownFilesMax = 4096

// Page is a file that was asked for. There is no file, and File has no name, if the partition has nothing from there
// on.
type FileResponse struct {
	File File `json:"file"`
	// Table is the id of the table whose rows it has, where it is sent to be restored.
	Table uint32 `json:"table,omitempty"`
	// Batches says what is to be done with a file of atomic batches.
	Batches *BatchReplay `json:"batches,omitempty"`
	// Next is where the next file begins, empty after the last one.
	Next []byte `json:"next,omitempty"`
	// Data is the file, nil if it is known.
	Data []byte `json:"-"`
}

// Append appends the page as it is sent, see appendHeaded.
func (p *FileResponse) Append(dst []byte) ([]byte, error) { return appendHeaded(dst, p, p.Data) }

// DecodePage reads what Append wrote.
func DecodeFileResponse(b []byte) (*FileResponse, error) {
	p := new(FileResponse)
	var err error
	p.Data, err = splitHead(b, p)
	return p, err
}

// appendHeaded appends data with a head: length of the head u32, the head as JSON, the data.
func appendHeaded(dst []byte, head any, data []byte) ([]byte, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
	return append(append(dst, text...), data...), nil
}

// headed reads a head, and returns the data, nil if there are none.
func splitHead(b []byte, head any) (data []byte, err error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
		return nil, fmt.Errorf("page of a backup: %w", ErrDamaged)
	}
	n := 4 + int(binary.BigEndian.Uint32(b))
	if err := json.Unmarshal(b[4:n], head); err != nil {
		return nil, fmt.Errorf("page of a backup: %w: %w", ErrDamaged, err)
	}
	if n < len(b) {
		data = b[n:]
	}
	return data, nil
}

// Restore is what a cluster is told to make of a backup.
type Restore struct {
	// Backup is the ID of the manifest: what was begun for it may be gone on with.
	Backup string `json:"backup"`
	// Records are those of the backup, as plain bytes of a file.
	Metadata []byte          `json:"records"`
	Tables   []RestoredTable `json:"tables"`
	// Roles says that roles that are not there are restored, too.
	Roles bool `json:"roles,omitempty"`
}

// RestoredTable is a table, with the names that it is to have, and in the answer the ids that it had and has.
type RestoredTable struct {
	Keyspace    string `json:"keyspace"`
	Name        string `json:"name"`
	NewKeyspace string `json:"as_keyspace"`
	NewName     string `json:"as"`
	OldID       uint32 `json:"was,omitempty"`
	NewID       uint32 `json:"is,omitempty"`
	// Begun says that it was begun before.
	Resumed bool `json:"begun,omitempty"`
}

// Batches says what a node is to do with the atomic batches in a file: to finish what is left of them.
type BatchReplay struct {
	// Tables are the ids of tables here, by those in the backup; others are passed over.
	Tables map[uint32]uint32 `json:"tables"`
	// Applied are the parts that are in the rows of the backup already, as PartOf names them.
	Applied []string `json:"applied"`
}

// PartOf names a part of an atomic batch.
func BatchPartName(batch [16]byte, part uint64) string { return fmt.Sprintf("%x/%d", batch, part) }
