package thriftnet

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
)

// errTimeout is the cause of a request's context when its time is over.
var errTimeout = errors.New("the request took longer than this service allows")

type requestKey struct{}

type request struct {
	peer     string
	tls      *tls.ConnectionState
	draining <-chan struct{}
	gone     <-chan struct{}
	last     *atomic.Bool
}

// Peer returns the address of whoever made the request that ctx is of; empty outside of one.
func Peer(ctx context.Context) string {
	r, _ := ctx.Value(requestKey{}).(request)
	return r.peer
}

// TLS returns the state of the connection that brought the request that ctx is of; nil over plain TCP
// and outside of one.
func TLS(ctx context.Context) *tls.ConnectionState {
	r, _ := ctx.Value(requestKey{}).(request)
	return r.tls
}

// Draining returns a channel that is closed when the server begins to stop: a handler that waits for
// something to happen should answer now. It is nil, and never ready, outside of a request.
func Draining(ctx context.Context) <-chan struct{} {
	r, _ := ctx.Value(requestKey{}).(request)
	return r.draining
}

// Gone returns a channel that is closed when the peer has closed its connection, or its half of it.
// It is nil, and never ready, outside of a request.
func Gone(ctx context.Context) <-chan struct{} {
	r, _ := ctx.Value(requestKey{}).(request)
	return r.gone
}

// CloseAfter has the connection that brought the request that ctx is of closed once the request is
// answered, because a new one may fare better. It does nothing outside of a request.
func CloseAfter(ctx context.Context) {
	if r, ok := ctx.Value(requestKey{}).(request); ok {
		r.last.Store(true)
	}
}
