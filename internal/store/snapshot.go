package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

// A snapshot is a header, the pages of the state file as one read transaction
// sees them, and a SHA-256 sum over both. All numbers are big-endian:
//
//	offset  0   8 bytes  "LMSTATE" and a format byte
//	        8   u32      feature level in force; 0 before formation
//	       12   u64      applied index
//	       20   u64      applied term
//	       28   u32      cluster id; 0 before formation
//	       32   u64      incarnation
//	       40   u64      size of the pages
//	       48   u32      CRC-32C of the bytes before, so that damage is told from
//	                     another version
//	       52            the pages, then 32 bytes of SHA-256
const (
	snapshotMagic  = "LMSTATE"
	snapshotFormat = 1
	snapshotHeader = 52
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header describes a snapshot.
type Header struct {
	Level       int32
	Applied     job.Position
	ClusterID   int32
	Incarnation int64
	Size        int64 // of the pages, in bytes
}

// SnapshotSize is how many bytes the snapshot has in all.
func (h Header) SnapshotSize() int64 { return snapshotHeader + h.Size + sha256.Size }

func (h Header) encode() []byte {
	b := append(make([]byte, 0, snapshotHeader), snapshotMagic...)
	b = append(b, snapshotFormat)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Level)) //nolint:gosec // levels count from 0
	b = appendUint64(appendUint64(b, h.Applied.Index), h.Applied.Term)
	b = binary.BigEndian.AppendUint32(b, uint32(h.ClusterID)) //nolint:gosec // ids are positive
	b = appendUint64(b, uint64(h.Incarnation))
	b = appendUint64(b, uint64(h.Size))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeHeader(b []byte) (Header, error) {
	if !bytes.HasPrefix(b, []byte(snapshotMagic)) {
		return Header{}, errors.New("it does not begin as a snapshot of lancemaster does")
	}
	sum := len(b) - 4
	if crc32.Checksum(b[:sum], castagnoli) != binary.BigEndian.Uint32(b[sum:]) {
		return Header{}, errors.New("its header does not match its checksum")
	}
	h := Header{
		Level: int32(binary.BigEndian.Uint32(b[8:])), //nolint:gosec // compared below as it is
		Applied: job.Position{
			Index: binary.BigEndian.Uint64(b[12:]), Term: binary.BigEndian.Uint64(b[20:]),
		},
		ClusterID:   int32(binary.BigEndian.Uint32(b[28:])), //nolint:gosec // compared as it is
		Incarnation: int64(binary.BigEndian.Uint64(b[32:])),
		Size:        int64(binary.BigEndian.Uint64(b[40:])),
	}
	if got := b[len(snapshotMagic)]; got != snapshotFormat {
		return Header{}, &command.UnsupportedError{
			Level: h.Level, What: "a snapshot", Why: fmt.Sprintf("its format is %d", got),
		}
	}
	if h.Level > command.MaxLevel {
		return Header{}, &command.UnsupportedError{Level: h.Level, What: "a snapshot", Why: "that level is in force"}
	}
	if h.Size <= 0 || h.Level < 0 {
		return Header{}, fmt.Errorf("its header gives size %d and level %d", h.Size, h.Level)
	}
	return h, nil
}

// ReadHeader reads what a snapshot begins with. The rest is neither read nor checked.
func ReadHeader(snapshot io.Reader) (Header, error) {
	_, h, err := readHeader(snapshot)
	return h, err
}

func readHeader(snapshot io.Reader) (head []byte, h Header, err error) {
	head = make([]byte, snapshotHeader)
	if _, err := io.ReadFull(snapshot, head); err != nil {
		return nil, Header{}, fmt.Errorf("its header cannot be read: %w", err)
	}
	h, err = decodeHeader(head)
	return head, h, err
}

// VerifySnapshot reads a snapshot to its end and holds it to its checksums. What the
// pages hold is not looked at.
func VerifySnapshot(snapshot io.Reader) (Header, error) {
	head, h, err := readHeader(snapshot)
	if err != nil {
		return Header{}, err
	}
	return h, copyPages(io.Discard, head, h, snapshot)
}

// Header describes the snapshot that WriteSnapshot would write.
func (r *Reader) Header() (Header, error) {
	applied, err := r.Applied()
	if err != nil {
		return Header{}, err
	}
	c, err := r.Cluster()
	if err != nil {
		return Header{}, err
	}
	return Header{
		Level: c.Level, Applied: applied, ClusterID: c.ClusterID, Incarnation: c.Incarnation, Size: r.tx.Size(),
	}, nil
}

// WriteSnapshot streams the state that the reader sees.
func (r *Reader) WriteSnapshot(w io.Writer) error {
	h, err := r.Header()
	if err != nil {
		return err
	}
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	if _, err := out.Write(h.encode()); err != nil {
		return fmt.Errorf("cannot write the snapshot: %w", err)
	}
	n, err := r.tx.WriteTo(out)
	if err != nil {
		return fmt.Errorf("cannot write the snapshot: %w", err)
	}
	if n != h.Size {
		return fmt.Errorf("the snapshot has %d bytes of pages, its header says %d", n, h.Size)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("cannot write the snapshot: %w", err)
	}
	return nil
}

// Received is a snapshot that has been received whole beside a state file, and
// checked, but does not yet take its place.
type Received struct {
	Store  *Store
	Header Header
	path   string // of the state file
}

// Receive writes a snapshot to a new file beside the state file at path and opens
// it. Whatever is wrong with it, the state file is untouched and nothing is left.
func Receive(path string, snapshot io.Reader) (*Received, error) {
	r := &Received{path: path}
	if err := r.receive(snapshot); err != nil {
		return nil, fmt.Errorf("the snapshot is refused: %w; the state before it is kept", errors.Join(err, r.Discard()))
	}
	return r, nil
}

func (r *Received) receive(snapshot io.Reader) (err error) {
	var head []byte
	if head, r.Header, err = readHeader(snapshot); err != nil {
		return err
	}
	if err := r.receivePages(head, snapshot); err != nil {
		return err
	}
	if r.Store, err = openFile(r.path + restoreSuffix); err != nil {
		return err
	}
	return r.Store.Read(func(have *Reader) error {
		h, err := have.Header()
		if err != nil {
			return err
		}
		// The size may differ: opening added nothing, but pages at the end may be free.
		if h.Size = r.Header.Size; h != r.Header {
			return fmt.Errorf("its header says %+v, its content %+v", r.Header, h)
		}
		return nil
	})
}

func (r *Received) receivePages(head []byte, snapshot io.Reader) (err error) {
	f, err := os.OpenFile(r.path+restoreSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
	}()
	if err := copyPages(f, head, r.Header, snapshot); err != nil {
		return err
	}
	return f.Sync()
}

// copyPages copies a snapshot's pages to w and reads on to its end, which must be
// that of the file. head is the header as it was read.
func copyPages(w io.Writer, head []byte, h Header, snapshot io.Reader) error {
	sum := sha256.New()
	sum.Write(head)
	n, err := io.CopyN(io.MultiWriter(w, sum), snapshot, h.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("it is cut off: %d of the %d bytes of its pages are there", n, h.Size)
	}
	if err != nil {
		return fmt.Errorf("its pages cannot be copied: %w", err)
	}
	trailer := make([]byte, sha256.Size)
	_, err = io.ReadFull(snapshot, trailer)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is cut off: its checksum cannot be read")
	}
	if err != nil {
		return fmt.Errorf("its checksum cannot be read: %w", err)
	}
	if !bytes.Equal(trailer, sum.Sum(nil)) {
		return errors.New("its content does not match its checksum")
	}
	switch n, err := io.CopyN(io.Discard, snapshot, 1); {
	case n != 0:
		return errors.New("something follows its checksum")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("its end cannot be read: %w", err)
	}
	return nil
}

// Install puts the snapshot in the state file's place, durably.
func (r *Received) Install() error {
	if err := os.Rename(r.path+restoreSuffix, r.path); err != nil {
		return fmt.Errorf("cannot put the restored state in place: %w", err)
	}
	return syncDir(filepath.Dir(r.path))
}

// Discard removes what was received. It is not for an installed snapshot.
func (r *Received) Discard() error {
	var closing error
	if r.Store != nil {
		closing = r.Store.db.Close()
		r.Store = nil
	}
	err := os.Remove(r.path + restoreSuffix)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(closing, err)
}
