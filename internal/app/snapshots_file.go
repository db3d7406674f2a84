package app

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/store"
)

// A snapshot file is a description of itself and the snapshot of the state, as package store writes
// it: that one says which cluster, incarnation, level and position it is of, and ends with a SHA-256
// sum over its own bytes. All numbers are big-endian:
//
//	offset  0   8 bytes  "LMSAVED" and a format byte
//	        8   u32      length n of the description
//	       12   n bytes  the description, JSON
//	       12+n u32      CRC-32C of the bytes before
//	       16+n          the snapshot, to the end of the file
const (
	savedMagic  = "LMSAVED"
	savedFormat = 1
	savedFixed  = 12 // bytes before the description
	// maxDescription bounds the description, in bytes.
	maxDescription = 4096
)

// description is what the snapshot of the state does not say itself.
type description struct {
	CreatedAt job.Millis `json:"created_at_ms"`
	NodeID    string     `json:"node_id"` // whose state it is
	Version   string     `json:"version"` // of the program that wrote it
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (d description) encode() ([]byte, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if len(text) > maxDescription {
		return nil, fmt.Errorf("the description of a snapshot has %d bytes, at most %d are allowed", len(text), maxDescription)
	}
	b := append([]byte(savedMagic), savedFormat)
	b = binary.BigEndian.AppendUint32(b, uint32(len(text))) //nolint:gosec // bounded above
	b = append(b, text...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// writeSnapshotFile writes a whole snapshot file.
func writeSnapshotFile(w io.Writer, d description, e *fsm.Export) error {
	head, err := d.encode()
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	return e.Write(w)
}

// readDescription reads what a snapshot file begins with; the snapshot of the state follows.
func readDescription(r io.Reader) (description, error) {
	head := make([]byte, savedFixed)
	if _, err := io.ReadFull(r, head); err != nil {
		return description{}, notSaved(err)
	}
	if !bytes.HasPrefix(head, []byte(savedMagic)) {
		return description{}, errors.New("it is not a file that lancemaster snapshot save has written")
	}
	if format := head[len(savedMagic)]; format != savedFormat {
		return description{}, fmt.Errorf("it has format %d, this build knows format %d; use the version that wrote it or a later one", format, savedFormat)
	}
	n := binary.BigEndian.Uint32(head[len(savedMagic)+1:])
	if n > maxDescription {
		return description{}, fmt.Errorf("it is damaged: its description would have %d bytes, more than the %d that are allowed", n, maxDescription)
	}
	rest := make([]byte, n+4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return description{}, notSaved(err)
	}
	text, sum := rest[:n], rest[n:]
	if crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, text) != binary.BigEndian.Uint32(sum) {
		return description{}, errors.New("it is damaged: its description does not match its checksum")
	}
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		return description{}, fmt.Errorf("it is damaged: its description cannot be read: %w", err)
	}
	return d, nil
}

// IsSnapshotFile reports whether a file begins as a snapshot file of any format does. Nothing more of
// it is read.
func IsSnapshotFile(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, len(savedMagic))
	switch _, err := io.ReadFull(f, head); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return false, nil
	case err != nil:
		return false, err
	}
	return string(head) == savedMagic, nil
}

func notSaved(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is cut off, or is not a file that lancemaster snapshot save has written")
	}
	return err
}

// savedSnapshot is a snapshot file that is open for reading.
type savedSnapshot struct {
	description
	header store.Header
	file   io.ReadSeeker
	start  int64 // of the snapshot of the state
}

// openSaved reads what a snapshot file says of itself. Nothing of the state is read yet.
func openSaved(file io.ReadSeeker) (*savedSnapshot, error) {
	s := &savedSnapshot{file: file}
	var err error
	if s.description, err = readDescription(file); err != nil {
		return nil, err
	}
	if s.start, err = file.Seek(0, io.SeekCurrent); err != nil {
		return nil, err
	}
	if s.header, err = store.ReadHeader(file); err != nil {
		return nil, fmt.Errorf("the snapshot in it: %w", err)
	}
	if s.header.ClusterID == 0 || s.header.Applied.Index == 0 {
		return nil, errors.New("it holds the state of a master before any cluster was formed: there is nothing to restore")
	}
	return s, nil
}

// state begins to read the snapshot of the state.
func (s *savedSnapshot) state() (io.Reader, error) {
	if _, err := s.file.Seek(s.start, io.SeekStart); err != nil {
		return nil, err
	}
	return s.file, nil
}

// verify reads all of it and holds it to its checksums.
func (s *savedSnapshot) verify() error {
	r, err := s.state()
	if err != nil {
		return err
	}
	if _, err := store.VerifySnapshot(r); err != nil {
		return fmt.Errorf("the snapshot in it is damaged: %w; use another copy of the file, or another file", err)
	}
	return nil
}
