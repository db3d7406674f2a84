package thriftnet

import (
	"context"
	"errors"
)

// errTimeout is the cause of a request's context when its time is over.
var errTimeout = errors.New("the request took longer than this service allows")

type requestKey struct{}

type request struct {
	peer     string
	draining <-chan struct{}
	gone     <-chan struct{}
}

// Peer returns the address of whoever made the request that ctx is of; empty outside of one.
func Peer(ctx context.Context) string {
	r, _ := ctx.Value(requestKey{}).(request)
	return r.peer
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
