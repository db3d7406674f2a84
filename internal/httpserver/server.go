// Package httpserver serves a node's health and metrics over HTTP.
//
//	/livez    200 while the process can serve at all; it never depends on a quorum
//	/readyz   200 when this node leads and serves; otherwise 503 and the reason
//	/metrics  Prometheus text
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Ready says whether the node serves, and why not.
type Ready func() (ok bool, reason string)

// Server is the HTTP side of one node.
type Server struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

// Bounds of a connection. Health checks and scrapes are small and quick.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHeader    = 16 << 10
	stopGrace    = time.Second
)

// Start listens on address and serves until Stop.
func Start(address string, ready Ready, metrics http.Handler, log *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on http.listen %s: %w", address, err)
	}
	s := &Server{
		listener: l,
		server: &http.Server{
			Handler:           routes(ready, metrics),
			ReadTimeout:       readTimeout,
			ReadHeaderTimeout: readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTP server ended", "error", err)
		}
	}()
	return s, nil
}

// Addr returns the bound address.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Stop gives requests in progress a second, less when ctx ends before, and then
// cuts them. When it returns nothing of the server is left.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	<-s.done
	return err
}

func routes(ready Ready, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ok, reason := ready(); !ok {
			answer(w, http.StatusServiceUnavailable, "not ready: "+reason)
			return
		}
		answer(w, http.StatusOK, "ok")
	})
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "lancemaster: /livez, /readyz, /metrics")
	})
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // the client may be gone; nothing to do about it
}
