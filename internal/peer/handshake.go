package peer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A connection begins with three messages: the dialler's hello, the acceptor's answer, the dialler's
// verdict. Each is
//
//	magic (7 bytes) | version (1 byte) | length (4 bytes, big-endian) | JSON
//
// This frame, and the field "refusal" of the JSON, stay as they are in every later version, so that
// two versions that have nothing else in common can still say so. Unknown fields are skipped.
const (
	magic           = "LMPEER\n"
	protocolVersion = 1
	// maxHandshake bounds the JSON of one message, in bytes.
	maxHandshake = 4 << 10
	headerSize   = len(magic) + 1 + 4
)

// errForeign says that the other side does not speak this protocol at all.
var errForeign = errors.New("the other side does not speak the protocol of lancemaster's Raft port")

// errMalformed says that a message could not be understood.
var errMalformed = errors.New("the handshake is malformed")

// hello is what a dialler says first.
type hello struct {
	Kind Kind `json:"kind"`
	// Want is the id of the node that the dialler means to reach; empty: whoever is there.
	Want     string   `json:"want,omitempty"`
	Identity Identity `json:"identity"`
}

// answer is what an acceptor says to a hello.
type answer struct {
	Identity Identity `json:"identity"`
	Refusal  *Refusal `json:"refusal,omitempty"`
}

// verdict is what a dialler says to an answer: whether it, too, agrees. The next bytes belong to the
// use of the connection.
type verdict struct {
	Refusal *Refusal `json:"refusal,omitempty"`
}

// writeMessage writes one message of the handshake, with one write.
func writeMessage(w io.Writer, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode the handshake: %w", err)
	}
	if len(body) > maxHandshake {
		return fmt.Errorf("the handshake is too long: %d bytes, at most %d are read", len(body), maxHandshake)
	}
	frame := make([]byte, 0, headerSize+len(body))
	frame = append(frame, magic...)
	frame = append(frame, protocolVersion)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body))) //nolint:gosec // bounded above
	frame = append(frame, body...)
	_, err = w.Write(frame)
	return err
}

// readMessage reads one message of the handshake and not a byte more. version is that of the other
// side; the message of another version than ours is decoded as far as it can be.
func readMessage(r io.Reader, message any) (version byte, err error) {
	header := make([]byte, headerSize)
	// The first byte by itself: whoever waits for an answer to something short must not keep us.
	for read := 0; read < headerSize; {
		n, err := r.Read(header[read:])
		read += n
		if seen := min(read, len(magic)); !bytes.Equal(header[:seen], []byte(magic[:seen])) {
			return 0, errForeign
		}
		if read < headerSize && err != nil {
			if read > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	version = header[len(magic)]
	length := binary.BigEndian.Uint32(header[len(magic)+1:])
	if length > maxHandshake {
		return version, fmt.Errorf("%w: it announces %d bytes, at most %d are read", errMalformed, length, maxHandshake)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return version, err
	}
	if err := json.Unmarshal(body, message); err != nil {
		return version, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return version, nil
}

// otherVersion is the refusal of a side that speaks another version of the protocol.
func otherVersion(theirs byte) *Refusal {
	return refuse(CodeUnsupportedProtocol, "the one side speaks version %d of the protocol between masters, the other version %d; upgrade the older",
		protocolVersion, theirs)
}
