package httpserver

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

func routes(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", o.readyz)
	mux.Handle("GET /leader", o.details(http.HandlerFunc(o.leader)))
	mux.Handle("GET /metrics", o.details(o.Metrics))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "lancemaster: /livez, /readyz, /readyz?standbyok, /leader, /metrics")
	})
	return bodiless(mux)
}

// bodiless refuses requests that bring a body, unread: nothing here takes one, and a connection whose client
// does not send what it announced would be held for as long as the server waits for it.
func bodiless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		// After the answer the library reads what is left of a body, which this keeps it from.
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // each of this server's connections can
		w.Header().Set("Connection", "close")
		answer(w, http.StatusRequestEntityTooLarge, "requests to this server have no body")
	})
}

func (o Options) readyz(w http.ResponseWriter, r *http.Request) {
	ok, reason := o.Ready()
	if ok {
		answer(w, http.StatusOK, "ok")
		return
	}
	because := func(reason string) string {
		if !o.views(r.TLS) {
			return "; the reason is told to those who show a certificate"
		}
		return ": " + reason
	}
	if r.URL.Query().Has("standbyok") && o.Standby != nil {
		if ok, why := o.Standby(); ok {
			answer(w, http.StatusOK, "ok, as a standby"+because(reason))
			return
		} else if why != "" {
			reason = why
		}
	}
	answer(w, http.StatusServiceUnavailable, "not ready"+because(reason))
}

// views says whether a caller of what everybody may call may see details too. A probe without a certificate
// is none that was refused.
func (o Options) views(state *tls.ConnectionState) bool {
	return o.Viewers == nil || state != nil && len(state.PeerCertificates) > 0 && o.Viewers(state) == nil
}

func (o Options) leader(w http.ResponseWriter, _ *http.Request) {
	var known bool
	var leader Leader
	if o.Leader != nil {
		leader, known = o.Leader()
	}
	if !known {
		answerJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "no leader is known"})
		return
	}
	answerJSON(w, http.StatusOK, leader)
}

// details guards what says more than that the node lives.
func (o Options) details(next http.Handler) http.Handler {
	if o.Viewers == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := o.Viewers(r.TLS); err != nil {
			w.Header().Set("Connection", "close") // a new one may show another certificate
			answer(w, http.StatusForbidden, "this page needs a client certificate, which /livez and /readyz do not: "+err.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, text string) {
	head(w, status, "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, text) // the client may be gone; nothing to do about it
}

func answerJSON(w http.ResponseWriter, status int, value any) {
	head(w, status, "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may be gone; nothing to do about it
}

func head(w http.ResponseWriter, status int, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
}
