package auth

import (
	"fmt"
	"net"
	"net/netip"
)

// NeedsAuth reports whether a listener must know its callers: one that others than this machine can
// reach. A host name other than localhost counts as such, since what it resolves to may change.
func NeedsAuth(listenAddress string, unixSocket bool) bool {
	if unixSocket {
		return false
	}
	host, _, err := net.SplitHostPort(listenAddress)
	if err != nil {
		return true
	}
	if host == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

// Listener is how an admin service listens.
type Listener struct {
	Address     string
	UnixSocket  bool
	TLS         bool
	ClientCerts bool // client certificates are required
	Tokens      bool // callers without a token or a certificate are refused
}

// Check refuses a listener at which strangers could act, or overhear a token.
func (l Listener) Check() error {
	switch {
	case l.ClientCerts && !l.TLS:
		return fmt.Errorf("client certificates need TLS; name this node's certificate and key")
	case !NeedsAuth(l.Address, l.UnixSocket):
		return nil
	case !l.ClientCerts && !l.Tokens:
		return fmt.Errorf("%s can be reached from other machines, and nobody would be asked who they are;"+
			" require client certificates or tokens, or listen on 127.0.0.1 or a unix socket", l.Address)
	case !l.TLS:
		return fmt.Errorf("%s can be reached from other machines, and tokens would travel to it readable by anybody on the way;"+
			" name this node's certificate and key for TLS, or listen on 127.0.0.1 or a unix socket", l.Address)
	}
	return nil
}
