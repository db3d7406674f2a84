package tlsconf

import (
	"fmt"
	"slices"
	"time"
)

// What the log is told of the files in use beside their being loaded.

// nearness is how near a certificate is to its end.
type nearness uint8

const (
	far  nearness = iota
	soon          // two weeks, or a third of its life where that is less
	near          // a day, or a tenth of its life
	ended
)

func (l *loaded) nearness(now time.Time) nearness {
	if l.cert == nil {
		return far
	}
	life, left := l.notAfter.Sub(l.cert.Leaf.NotBefore), l.notAfter.Sub(now)
	switch {
	case left <= 0:
		return ended
	case left < min(24*time.Hour, life/10):
		return near
	case left < min(14*24*time.Hour, life/3):
		return soon
	}
	return far
}

// tellTheEnd logs that the certificate comes nearer to its end, once for each step.
func (s *Source) tellTheEnd(now time.Time) {
	l := s.current.Load()
	step := l.nearness(now)
	if step <= s.nearing {
		return
	}
	s.nearing = step
	told := []any{"uses", s.cfg.uses(), "file", s.cfg.Files.Cert, "not_after", l.notAfter.UTC().Format(time.RFC3339)}
	if step == ended {
		s.cfg.Logger.Error("the TLS certificate in use has expired: connections are refused; put a new one in its place", told...)
		return
	}
	s.cfg.Logger.Warn("the TLS certificate in use expires soon; put a new one in its place", append(told, "left", l.notAfter.Sub(now).Round(time.Second).String())...)
}

// tellTheKey warns when others than this process may read the key: once, until they no longer may or another is
// loaded.
func (s *Source) tellTheKey() {
	if s.cfg.Files.Key == "" {
		return
	}
	k, before := lookAtKey(s.cfg.Files.Key), s.keyOpen
	if s.keyOpen = k.openToOthers(); !s.keyOpen || before {
		return
	}
	s.cfg.Logger.Warn("a TLS key may be read by others than this process; set its mode to 0600, or to 0640 where root owns it and the group is this process's",
		"uses", s.cfg.uses(), "file", s.cfg.Files.Key, "mode", fmt.Sprintf("%#o", k.mode))
}

// tellTheCA warns of a certificate that no master with the same CA file takes. Nothing else needs it to lead to one
// of those: where others connect, they may trust the CA of this certificate by files of their own. It is no reason
// to refuse it, since the other masters' files may be ahead of this one.
func (s *Source) tellTheCA(l *loaded, now time.Time) {
	if l.cert == nil || l.pool == nil || !slices.Contains(s.cfg.Uses, UseRaft) {
		return
	}
	if err := l.verify(l.given, now); err != nil {
		s.cfg.Logger.Warn("the TLS certificate leads to no CA in this node's own CA file: every master with that CA file refuses this node; have it issued by one of those CAs, or add its CA to the CA file of every master",
			"uses", s.cfg.uses(), "file", s.cfg.Files.Cert, "ca_file", s.cfg.Files.CA, "error", err.Error())
	}
}
