package httpserver

import (
	"net"
	"net/http"
	"net/http/pprof" // what it registers by itself is served by nobody: every server here has a mux of its own
	"net/netip"
	"time"
)

// debugWriteTimeout bounds a profile, which is written when its time is over; the default is 30 s.
const debugWriteTimeout = 90 * time.Second

// debugRoutes serves the profiles, but not the command line, which go tool pprof does without.
func debugRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /debug/pprof/cmdline", http.NotFoundHandler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page of the web can point a name of its own at 127.0.0.1, and the browser of whoever sits
		// at this machine would ask here for it. It still says that name.
		if !ownMachine(r.Host) {
			answer(w, http.StatusForbidden, "profiles are served to 127.0.0.1, [::1] and localhost by these names only")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// ownMachine reports whether an address, with or without a port, is this machine's own.
func ownMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
