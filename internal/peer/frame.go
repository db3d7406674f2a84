package peer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A call is two frames, each a length (4 bytes, big-endian) and as many bytes:
//
//	request: timeout in ms (4) | length of the method (1) | method | payload
//	reply:   status (1) | length of the identity (2) | identity, JSON, only if it has changed | payload

// status is how a call ended.
type status byte

const (
	statusOK      status = 1 // payload is the handler's reply
	statusError   status = 2 // payload is the text of the handler's error
	statusRefused status = 3 // payload is a Refusal, JSON; no handler ran
)

// requestOverhead and replyOverhead are the most that a frame holds beside its payload.
const (
	requestOverhead = 4 + 1 + maxMethod
	replyOverhead   = 1 + 2 + maxHandshake
	// eager is how much of an announced length is believed: beyond it, memory is taken as bytes come.
	eager = 64 << 10
	// maxErrorText bounds the text of a handler's error, in bytes.
	maxErrorText = 4 << 10
)

// errFrame says that a frame is not one.
var errFrame = errors.New("malformed frame of a call")

type request struct {
	timeout time.Duration
	method  string
	payload []byte
}

type reply struct {
	status   status
	identity *Identity // nil: as told before
	payload  []byte
}

// begin makes a frame's buffer with room for its length.
func begin(size int) []byte { return make([]byte, 4, 4+size) }

// finish puts the length in front.
func finish(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4)) //nolint:gosec // callers bound the payload
	return frame
}

func (r request) encode() []byte {
	frame := begin(requestOverhead + len(r.payload))
	ms := min(max(r.timeout.Milliseconds(), 1), 1<<31)
	frame = binary.BigEndian.AppendUint32(frame, uint32(ms))
	frame = append(frame, byte(len(r.method))) //nolint:gosec // callers bound the name
	frame = append(frame, r.method...)
	return finish(append(frame, r.payload...))
}

func decodeRequest(body []byte) (request, error) {
	if len(body) < 5 || len(body) < 5+int(body[4]) {
		return request{}, fmt.Errorf("%w: a request of %d bytes", errFrame, len(body))
	}
	end := 5 + int(body[4])
	return request{
		timeout: time.Duration(binary.BigEndian.Uint32(body)) * time.Millisecond,
		method:  string(body[5:end]), payload: body[end:],
	}, nil
}

func (r reply) encode() ([]byte, error) {
	var identity []byte
	if r.identity != nil {
		var err error
		if identity, err = json.Marshal(r.identity); err != nil {
			return nil, err
		}
		if len(identity) > maxHandshake {
			return nil, fmt.Errorf("%w: an identity of %d bytes", errFrame, len(identity))
		}
	}
	frame := append(begin(3+len(identity)+len(r.payload)), byte(r.status))
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(identity))) //nolint:gosec // bounded above
	frame = append(frame, identity...)
	return finish(append(frame, r.payload...)), nil
}

func decodeReply(body []byte) (reply, error) {
	if len(body) < 3 {
		return reply{}, fmt.Errorf("%w: a reply of %d bytes", errFrame, len(body))
	}
	r := reply{status: status(body[0])}
	end := 3 + int(binary.BigEndian.Uint16(body[1:]))
	if len(body) < end || r.status < statusOK || r.status > statusRefused {
		return reply{}, fmt.Errorf("%w: a reply of status %d and %d bytes", errFrame, r.status, len(body))
	}
	if end > 3 {
		r.identity = new(Identity)
		if err := json.Unmarshal(body[3:end], r.identity); err != nil {
			return reply{}, fmt.Errorf("%w: %w", errFrame, err)
		}
		if err := r.identity.check(); err != nil {
			return reply{}, fmt.Errorf("%w: %w", errFrame, err)
		}
	}
	r.payload = body[end:]
	return r, nil
}

// readLength reads the length of a frame.
func readLength(r io.Reader, limit int) (int, error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if int64(length) > int64(limit) {
		return 0, fmt.Errorf("%w: it announces %d bytes, at most %d are read", errFrame, length, limit)
	}
	return int(length), nil
}

// readBody reads what follows a length.
func readBody(r io.Reader, length int) ([]byte, error) {
	if length <= eager {
		body := make([]byte, length)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	var body bytes.Buffer
	n, err := io.CopyN(&body, r, int64(length))
	if err != nil && n > 0 && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return body.Bytes(), err
}

// shorten cuts a text to a bound.
func shorten(text string) string {
	if len(text) > maxErrorText {
		return text[:maxErrorText]
	}
	return text
}
