package command

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"
)

// MaxSize bounds an encoded command or record, in bytes.
const MaxSize = 1 << 20

// maxElements bounds every list, far above what the bounds in check.go allow.
const maxElements = 4096

const (
	commandFormat byte = 0xC1
	recordFormat  byte = 0xD1
	headerSize         = 5
)

// config makes hostile lengths fail before anything is allocated for them.
var config = &thrift.TConfiguration{
	MaxMessageSize:   MaxSize,
	MaxFrameSize:     MaxSize,
	MaxContainerSize: maxElements,
}

// encodeStruct writes an envelope and a struct.
func encodeStruct(format byte, level int32, number uint16, s thrift.TStruct) ([]byte, error) {
	transport := thrift.NewTMemoryBufferLen(512)
	var head [headerSize]byte
	head[0] = format
	binary.BigEndian.PutUint16(head[1:], uint16(level)) //nolint:gosec // levels are table constants, 1..MaxLevel
	binary.BigEndian.PutUint16(head[3:], number)
	transport.Write(head[:])
	protocol := thrift.NewTCompactProtocolConf(transport, config)
	if err := s.Write(context.Background(), protocol); err != nil {
		return nil, err
	}
	if err := protocol.Flush(context.Background()); err != nil {
		return nil, err
	}
	if transport.Len() > MaxSize {
		return nil, fmt.Errorf("it is %d bytes long, at most %d are allowed", transport.Len(), MaxSize)
	}
	return transport.Bytes(), nil
}

// header is a decoded envelope.
type header struct {
	level  int32
	number uint16
}

func readHeader(format byte, data []byte) (header, error) {
	switch {
	case len(data) < headerSize:
		return header{}, fmt.Errorf("it is %d bytes long, shorter than its header", len(data))
	case len(data) > MaxSize:
		return header{}, fmt.Errorf("it is %d bytes long, at most %d are allowed", len(data), MaxSize)
	case data[0] != format:
		return header{}, fmt.Errorf("it begins with 0x%02x, not 0x%02x", data[0], format)
	}
	h := header{level: int32(binary.BigEndian.Uint16(data[1:])), number: binary.BigEndian.Uint16(data[3:])}
	if h.level == 0 || h.number == 0 {
		return header{}, fmt.Errorf("level %d and kind %d: neither is ever 0", h.level, h.number)
	}
	return h, nil
}

// decodeStruct reads the struct behind an envelope. A field that the struct does
// not have is an *unknownFieldError.
func decodeStruct(data []byte, into thrift.TStruct) error {
	transport := &thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(data[headerSize:])}
	protocol := &strict{TProtocol: thrift.NewTCompactProtocolConf(transport, config)}
	err := into.Read(context.Background(), protocol)
	if protocol.unknown != nil {
		return protocol.unknown
	}
	return err
}

// unknownFieldError names a field that generated code would have skipped.
type unknownFieldError struct {
	id  int16
	typ thrift.TType
}

func (e *unknownFieldError) Error() string {
	return fmt.Sprintf("field %d of type %s is not known here", e.id, e.typ)
}

// strict is a protocol that skips nothing. Generated code calls Skip exactly where
// a field's number or type is not one of its own.
type strict struct {
	thrift.TProtocol
	last    int16
	unknown *unknownFieldError
}

// ReadFieldBegin remembers the field for Skip's error.
func (p *strict) ReadFieldBegin(ctx context.Context) (string, thrift.TType, int16, error) {
	name, typ, id, err := p.TProtocol.ReadFieldBegin(ctx)
	p.last = id
	return name, typ, id, err
}

// Skip refuses.
func (p *strict) Skip(_ context.Context, typ thrift.TType) error {
	if p.unknown == nil {
		p.unknown = &unknownFieldError{id: p.last, typ: typ}
	}
	return p.unknown
}
