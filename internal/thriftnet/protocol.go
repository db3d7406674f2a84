package thriftnet

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/apache/thrift/lib/go/thrift"
)

func init() {
	// The generated processors would look every few milliseconds whether the client of a call under
	// way is still there. Server waits for the news instead.
	thrift.ServerConnectivityCheckInterval = 0
}

// input is a server's protocol towards the request. Text that is not UTF-8 is malformed: the rest of
// the program may count on it. It says when the arguments have been read.
type input struct {
	thrift.TProtocol
	argumentsRead func()
}

func (p *input) ReadString(ctx context.Context) (string, error) {
	text, err := p.TProtocol.ReadString(ctx)
	if err == nil && !utf8.ValidString(text) {
		return "", thrift.NewTProtocolExceptionWithType(thrift.INVALID_DATA, errors.New("a text is not valid UTF-8"))
	}
	return text, err
}

func (p *input) ReadMessageEnd(ctx context.Context) error {
	err := p.TProtocol.ReadMessageEnd(ctx)
	p.argumentsRead()
	return err
}

// What a peer is told of a request that did not reach its handler.
const (
	textUnreadable    = "the request cannot be read: a required field is missing, a text is not valid UTF-8, or a value is malformed or too large; correct it and send it again"
	textUnknownMethod = "this service has no such method"
	textNoCall        = "the message is not a call"
	textPanic         = "internal error; the server's log says more"
)

// maxExceptionText bounds what an exception tells.
const maxExceptionText = 1024

// output is a server's protocol towards the answer. The generated code puts the text of Go errors
// into its exceptions; what it found while reading is replaced by a sentence that shows nothing of
// the inside, and what a handler said goes out without the prefix that names the method.
type output struct {
	thrift.TProtocol
	method     string
	exception  bool // an exception is being written
	unreadable bool // the exception said that the request cannot be read
}

func (p *output) WriteMessageBegin(ctx context.Context, name string, kind thrift.TMessageType, seq int32) error {
	p.exception = kind == thrift.EXCEPTION
	return p.TProtocol.WriteMessageBegin(ctx, name, kind, seq)
}

func (p *output) WriteString(ctx context.Context, text string) error {
	if p.exception {
		said, byHandler := strings.CutPrefix(text, "Internal error processing "+p.method+": ")
		if !byHandler {
			p.unreadable = true
			said = textUnreadable
		}
		text = shorten(said, maxExceptionText)
	}
	return p.TProtocol.WriteString(ctx, text)
}

// shorten cuts a text at a character's boundary.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// writeException answers a call with an exception of the library's.
func writeException(ctx context.Context, p thrift.TProtocol, method string, seq, kind int32, text string) error {
	if err := p.WriteMessageBegin(ctx, method, thrift.EXCEPTION, seq); err != nil {
		return err
	}
	if err := thrift.NewTApplicationException(kind, text).Write(ctx, p); err != nil {
		return err
	}
	if err := p.WriteMessageEnd(ctx); err != nil {
		return err
	}
	return p.Flush(ctx)
}
