package lance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// windowSize is how much of a file is held at once while walking it. One
	// window covers most manifests whole.
	windowSize = 64 << 10
	// maxMessage bounds one field or index description, which is decoded in
	// memory. Fragment bitmaps and per-field metadata make some of them large.
	maxMessage = 16 << 20
)

// tail is an Object whose last bytes are already in memory, so that the footer
// and the manifest before it cost one read.
type tail struct {
	Object
	from int64
	data []byte
}

func readTail(ctx context.Context, o Object) (*tail, error) {
	t := &tail{Object: o, data: make([]byte, min(o.Size(), windowSize))}
	t.from = o.Size() - int64(len(t.data))
	return t, o.ReadRange(ctx, t.data, t.from)
}

// ReadRange reads from memory when it can.
func (t *tail) ReadRange(ctx context.Context, p []byte, off int64) error {
	if off < t.from {
		return t.Object.ReadRange(ctx, p, off)
	}
	if copy(p, t.data[min(off-t.from, int64(len(t.data))):]) < len(p) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// section walks one length-framed message of a file front to back.
type section struct {
	ctx  context.Context
	file Object
	at   int64  // file offset of the first unread byte
	end  int64  // file offset past the message
	buf  []byte // bytes at at that are in memory
	mem  []byte // what buf is cut from
}

// openSection reads the u32 length at offset at; the message and its length
// must end at or before limit.
func openSection(ctx context.Context, file Object, at, limit int64) (*section, error) {
	const frame = 4
	if at < 0 || at > limit-frame {
		return nil, fmt.Errorf("its position %d leaves no room for a length before byte %d", at, limit)
	}
	var head [frame]byte
	if err := file.ReadRange(ctx, head[:], at); err != nil {
		return nil, &ioError{err}
	}
	s := &section{ctx: ctx, file: file, at: at + frame}
	s.end = s.at + int64(binary.LittleEndian.Uint32(head[:]))
	if s.end > limit {
		return nil, fmt.Errorf("its length of %d bytes at position %d runs past byte %d", s.end-s.at, at, limit)
	}
	return s, nil
}

// peek returns the next n unread bytes, or what is left when that is less. The
// result is valid until the next call.
func (s *section) peek(n int64) ([]byte, error) {
	n = min(n, s.end-s.at)
	if int64(len(s.buf)) >= n {
		return s.buf[:n], nil
	}
	want := min(max(n, windowSize), s.end-s.at)
	if int64(cap(s.mem)) < want {
		s.mem = make([]byte, want)
	}
	s.buf = s.mem[:want]
	if err := s.file.ReadRange(s.ctx, s.buf, s.at); err != nil {
		return nil, &ioError{err}
	}
	return s.buf[:n], nil
}

// skip moves over n bytes, which the caller has checked to be there.
func (s *section) skip(n int64) {
	s.at += n
	s.buf = s.buf[min(n, int64(len(s.buf))):]
}

// walk calls visit for every field of the message. The bytes of a field that
// wanted does not name are passed over without being read.
func (s *section) walk(wanted func(field int32) bool, visit visitor) error {
	const maxHead = 2 * 10 // a tag and a length or number
	for s.at < s.end {
		head, err := s.peek(maxHead)
		if err != nil {
			return err
		}
		num, typ, n := protowire.ConsumeTag(head)
		if n < 0 {
			return s.wireError(n)
		}
		if typ != protowire.BytesType {
			v, m, err := consumeScalar(num, typ, head[n:])
			if err != nil {
				return fmt.Errorf("at byte %d: %w", s.at, err)
			}
			s.skip(int64(n + m))
			if err := visit(int32(num), v); err != nil {
				return err
			}
			continue
		}
		size, m := protowire.ConsumeVarint(head[n:])
		if m < 0 {
			return s.wireError(m)
		}
		if err := s.walkBytes(int32(num), int64(n+m), size, wanted(int32(num)), visit); err != nil {
			return err
		}
	}
	return nil
}

// walkBytes passes over the head of a bytes field and then visits or skips the
// claimed number of bytes, which are first held against what is left.
func (s *section) walkBytes(field int32, head int64, claimed uint64, wanted bool, visit visitor) error {
	left := s.end - s.at - head
	if claimed > math.MaxInt64 || int64(claimed) > left {
		return fmt.Errorf("at byte %d: field %d claims %d bytes where %d are left", s.at, field, claimed, left)
	}
	size := int64(claimed)
	s.skip(head)
	if !wanted {
		s.skip(size)
		return s.ctx.Err()
	}
	if size > maxMessage {
		return tooMuch("field %d at byte %d is %d bytes long; the limit is %d", field, s.at, size, maxMessage)
	}
	b, err := s.peek(size)
	if err != nil {
		return err
	}
	if err := visit(field, value{typ: protowire.BytesType, bytes: b}); err != nil {
		return err
	}
	s.skip(size)
	return nil
}

func (s *section) wireError(n int) error {
	return fmt.Errorf("at byte %d: %w", s.at, protowire.ParseError(n))
}

// ioError marks a failure to read, as against bytes that were read and are wrong.
type ioError struct{ err error }

func (e *ioError) Error() string { return e.err.Error() }
func (e *ioError) Unwrap() error { return e.err }

func isIOError(err error) bool {
	_, ok := errors.AsType[*ioError](err)
	return ok
}

func tooMuch(format string, args ...any) error {
	return &Error{Code: Unsupported, Reason: fmt.Sprintf(format, args...)}
}
