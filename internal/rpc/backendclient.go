package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Bounds on what a backend's answer may hold.
const (
	maxReply        = 256 << 10 // bytes
	maxReplyItems   = 64        // elements of a list in it
	maxReplyTexts   = 16        // messages kept
	maxReplyVersion = 256
)

// defaultConnectTimeout bounds a dial whose context has no earlier deadline.
const defaultConnectTimeout = 10 * time.Second

// BackendClientConfig says how backends are spoken to.
type BackendClientConfig struct {
	Protocol thriftnet.Protocol // default binary
	Framed   bool
	TLS      func() *tls.Config                                                   // of the next dial; nil: plain TCP
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // default: TCP
	Timeout  time.Duration                                                        // of a call whose context has no deadline; default 60 s
}

// BackendClient dispatches invocations to backends and asks for their heartbeats. Each dispatch and
// each heartbeat has a connection of its own. It is safe for concurrent use.
type BackendClient struct {
	cfg thriftnet.ClientConfig
	tls func() *tls.Config
}

// NewBackendClient makes a client.
func NewBackendClient(cfg BackendClientConfig) *BackendClient {
	return &BackendClient{tls: cfg.TLS, cfg: thriftnet.ClientConfig{
		Protocol: cfg.Protocol, Framed: cfg.Framed, Timeout: cfg.Timeout, Dial: cfg.Dial,
		MaxMessage: maxReply, MaxContainer: maxReplyItems,
	}}
}

// BackendConn is one fresh connection for one dispatch.
type BackendConn struct{ client *thriftnet.Client }

// Dial connects to a backend's service port, TLS handshake included. When it fails, nothing has been
// sent.
func (b *BackendClient) Dial(ctx context.Context, at job.Address) (*BackendConn, error) {
	c, err := b.dial(ctx, at.Host, at.BePort)
	if err != nil {
		return nil, err
	}
	return &BackendConn{client: c}, nil
}

func (b *BackendClient) dial(ctx context.Context, host string, port int32) (*thriftnet.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultConnectTimeout)
	defer cancel()
	cfg := b.cfg
	if b.tls != nil {
		cfg.TLS = b.tls()
	}
	c, err := thriftnet.Dial(ctx, net.JoinHostPort(host, strconv.Itoa(int(port))), cfg)
	if err != nil && cfg.TLS != nil {
		return nil, noTLS(err)
	}
	return c, err
}

// noTLS says of a TLS handshake that was answered with something else, or with nothing, what that means.
func noTLS(err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return fmt.Errorf("no TLS is spoken there, and backend.tls asks for it: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the backend closed the connection on TLS, which backend.tls asks for and it does not speak, most likely: %w", err)
	}
	return err
}

// Submit sends the invocation and returns the backend's complete answer, whatever its status number.
// An error that wraps job.ErrUnknownMethod is a complete refusal. After any other error nobody knows
// what the backend does: this one may have been accepted.
func (c *BackendConn) Submit(ctx context.Context, inv *job.Invocation) (job.Reply, error) {
	clean := withoutEchoes(append(slices.Collect(maps.Values(inv.StorageOptions)), inv.Secret)...)
	status, err := backend.NewBackendServiceClient(c.client).SubmitLanceIndexJob(ctx, dispatchOf(inv))
	if err != nil {
		return job.Reply{}, callError("submit_lance_index_job", err, clean)
	}
	return replyOf(status, clean), nil
}

// RemoteAddr returns the address connected to, resolved.
func (c *BackendConn) RemoteAddr() string { return c.client.RemoteAddr() }

// Close closes the connection.
func (c *BackendConn) Close() error { return c.client.Close() }

// Size returns the invocation's size on the wire in the compact protocol, the measure of the bound on
// dispatches whatever protocol is spoken.
func (b *BackendClient) Size(inv *job.Invocation) (int, error) {
	counter := thrift.NewTMemoryBufferLen(4 << 10)
	p := thrift.NewTCompactProtocolConf(counter, &thrift.TConfiguration{})
	if err := dispatchOf(inv).Write(context.Background(), p); err != nil {
		return 0, fmt.Errorf("cannot serialize the dispatch of job %d: %w", inv.Job, err)
	}
	return counter.Len(), nil
}

// Heartbeat asks the process at an address for a sign of life.
func (b *BackendClient) Heartbeat(ctx context.Context, at job.Address, req job.HeartbeatRequest) (job.HeartbeatReply, error) {
	c, err := b.dial(ctx, at.Host, at.HeartbeatPort)
	if err != nil {
		return job.HeartbeatReply{}, fmt.Errorf("cannot connect: %w", err)
	}
	defer c.Close()
	clean := withoutEchoes(req.Token)
	result, err := backend.NewHeartbeatServiceClient(c).Heartbeat(ctx, masterInfoOf(req))
	if err != nil {
		return job.HeartbeatReply{}, callError("heartbeat", err, clean)
	}
	if result.Status == nil || result.BackendInfo == nil {
		return job.HeartbeatReply{}, errors.New("heartbeat: the answer has no status or no backend info")
	}
	status := replyOf(result.Status, clean)
	info := result.BackendInfo
	return job.HeartbeatReply{
		Status: status.Status, Messages: status.Messages, ProcessEpoch: info.GetBeStartTime(),
		RemoteAddr: c.RemoteAddr(), BePort: info.BePort, Version: cleanText(info.GetVersion(), maxReplyVersion),
	}, nil
}

// callError says what kind of failure a call ended with. Transport errors come first: the library
// wraps them in protocol errors. clean makes the peer's text fit to be kept.
func callError(method string, err error, clean func(string) string) error {
	var application thrift.TApplicationException
	var transport thrift.TTransportException
	var protocol thrift.TProtocolException
	switch {
	case errors.As(err, &application):
		if application.TypeId() == thrift.UNKNOWN_METHOD {
			return fmt.Errorf("%s: %w", method, job.ErrUnknownMethod)
		}
		text := clean(application.Error())
		return fmt.Errorf("%s: the peer answered with an exception of type %d: %s", method, application.TypeId(), text)
	case errors.As(err, &transport):
		return fmt.Errorf("%s: the connection failed: %w", method, err)
	case errors.As(err, &protocol):
		return fmt.Errorf("%s: the answer cannot be read: %w", method, err)
	default:
		return fmt.Errorf("%s: %w", method, err)
	}
}

func replyOf(s *shared.TStatus, clean func(string) string) job.Reply {
	r := job.Reply{Status: int32(s.StatusCode)} //nolint:gosec // read from the wire as an i32
	for _, text := range s.ErrorMsgs {
		if len(r.Messages) == maxReplyTexts {
			break
		}
		r.Messages = append(r.Messages, clean(text))
	}
	return r
}

func dispatchOf(inv *job.Invocation) *backend.TLanceIndexJobDispatch {
	d := &backend.TLanceIndexJobDispatch{
		JobID:                  int64(inv.Job),
		DispatchRevision:       int64(inv.DispatchRevision),
		InvocationID:           inv.InvocationID,
		BeProcessEpoch:         inv.ProcessEpoch,
		DeadlineMs:             int64(inv.DeadlineAt),
		MutationType:           shared.TLanceIndexMutationType(inv.Mutation),
		IndexName:              inv.IndexName,
		ColumnName:             inv.Column,
		IndexType:              string(inv.IndexType),
		DatasetURI:             inv.DatasetURI,
		AdmittedDatasetVersion: inv.DatasetVersion,
		SchemaContractJSON:     inv.SchemaContract,
		StorageOptions:         inv.StorageOptions,
		InvocationSecret:       &inv.Secret,
		MaxNumPartitions:       &inv.MaxNumPartitions,
		MaxNumSubVectors:       &inv.MaxNumSubVectors,
	}
	if inv.PropertiesJSON != "" {
		d.PropertiesJSON = &inv.PropertiesJSON
	}
	if inv.Mutation == job.MutationCreate {
		d.IfNotExists = &inv.IfNotExists
	}
	if inv.Mutation == job.MutationDrop {
		d.IfExists = &inv.IfExists
	}
	return d
}

func masterInfoOf(req job.HeartbeatRequest) *backend.TMasterInfo {
	id := int64(req.Backend)
	m := &backend.TMasterInfo{
		NetworkAddress: &shared.TNetworkAddress{Hostname: req.ReportHost, Port: req.ReportPort},
		ClusterID:      req.ClusterID, Epoch: req.Epoch, BackendID: &id,
	}
	if req.Token != "" {
		m.Token = &req.Token
	}
	if req.HTTPPort != 0 {
		m.HTTPPort = &req.HTTPPort
	}
	return m
}

// cleanText makes text of unknown origin fit for a log, a record and a terminal: valid UTF-8, no
// control characters, at most so many bytes.
func cleanText(text string, most int) string {
	// What is cut off need not be looked at; a replaced byte may grow to three.
	if len(text) > most {
		text = text[:most]
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return strings.TrimSpace(text)
}
