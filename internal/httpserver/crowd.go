package httpserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// crowd bounds the connections of one server. When one too many comes, another goes: the one that has been
// without a request longest, or, when all have one, whose has taken longest. A health check must be able to
// connect whoever else holds connections, and takes no time; and descriptors that HTTP takes are missing to
// the node's other services.
type crowd struct {
	most int

	mu    sync.Mutex
	conns map[net.Conn]member
}

type member struct {
	busy  bool // a request is being answered
	since time.Time
}

func newCrowd(most int) *crowd { return &crowd{most: most, conns: map[net.Conn]member{}} }

// changed is the server's ConnState.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(c.conns, conn)
	case http.StateNew, http.StateIdle, http.StateActive:
		if state == http.StateNew && len(c.conns) >= c.most {
			c.evict()
		}
		c.conns[conn] = member{busy: state == http.StateActive, since: time.Now()}
	}
}

func (c *crowd) evict() {
	var oldest net.Conn
	for conn, m := range c.conns {
		if oldest == nil || m.before(c.conns[oldest]) {
			oldest = conn
		}
	}
	if oldest == nil {
		return
	}
	delete(c.conns, oldest)
	if secure, ok := oldest.(*tls.Conn); ok {
		oldest = secure.NetConn() // a TLS connection's Close would first wait to send its farewell
	}
	_ = oldest.Close()
}

// before says which of two goes first.
func (m member) before(other member) bool {
	if m.busy != other.busy {
		return other.busy
	}
	return m.since.Before(other.since)
}
