package testcluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// joined is two ends of a connection between two hosts.
type joined struct {
	net        *Network
	a, b       *Host
	here, back net.Conn
}

func join(t *testing.T) joined {
	t.Helper()
	n := NewNetwork(1)
	j := joined{net: n, a: n.Host(MasterAddr(0)), b: n.Host(MasterAddr(1))}
	l, err := j.b.Listen(t.Context(), "tcp", "127.0.0.2:80")
	if err != nil {
		t.Fatal(err)
	}
	if j.here, err = j.a.Dial(t.Context(), "tcp", "127.0.0.2:80"); err != nil {
		t.Fatal(err)
	}
	if j.back, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return j
}

// bubble runs a test on virtual time, which begins anew for each.
func bubble(name string, t *testing.T, f func(*testing.T, joined)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, join(t)) }) })
}

func said(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Errorf("writing %q: %v", text, err)
	}
}

func heard(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Errorf("read %q, %v; want %q", got[:n], err, text)
	}
}

// within makes a read end after a time.
func within(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
}

func TestConnections(t *testing.T) {
	one := make([]byte, 1)
	bubble("data takes time and keeps its order", t, func(t *testing.T, j joined) {
		began := time.Now()
		said(t, j.here, "one ")
		said(t, j.here, "two")
		heard(t, j.back, "one two")
		if took := time.Since(began); took < latency || took > latency+jitter {
			t.Errorf("it took %s", took)
		}
	})
	bubble("a cut holds back one direction, and loses nothing", t, func(t *testing.T, j joined) {
		j.net.Cut(j.a.addr, j.b.addr)
		said(t, j.here, "held")
		within(t, j.back, time.Hour)
		began := time.Now()
		if _, err := j.back.Read(one); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("over a cut: %v after %s", err, time.Since(began))
		}
		said(t, j.back, "other way")
		heard(t, j.here, "other way")
		within(t, j.back, time.Hour)
		time.AfterFunc(time.Minute, func() { j.net.Mend(j.a.addr, j.b.addr) })
		heard(t, j.back, "held")
	})
	bubble("a slow direction", t, func(t *testing.T, j joined) {
		j.net.Slow(j.a.addr, j.b.addr, time.Minute)
		began := time.Now()
		said(t, j.here, "late")
		heard(t, j.back, "late")
		if took := time.Since(began); took < time.Minute {
			t.Errorf("it took %s", took)
		}
	})
	bubble("a full window holds the writer", t, func(t *testing.T, j joined) {
		if err := j.here.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := j.here.Write(make([]byte, 2*window))
		if n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("nobody reads, and %d bytes were written: %v", n, err)
		}
		heard(t, j.back, string(make([]byte, window)))
		_ = j.here.SetWriteDeadline(time.Time{})
		said(t, j.here, "more")
		heard(t, j.back, "more")
	})
	bubble("a close comes after the data", t, func(t *testing.T, j joined) {
		said(t, j.here, "last")
		if err := j.here.Close(); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(j.back); err != nil || !bytes.Equal(all, []byte("last")) {
			t.Errorf("read %q, %v", all, err)
		}
		if _, err := j.back.Write(one); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("writing to a closed connection: %v", err)
		}
		if _, err := j.here.Read(one); !errors.Is(err, net.ErrClosed) {
			t.Errorf("reading a connection of one's own that is closed: %v", err)
		}
	})
	bubble("a dead process", t, func(t *testing.T, j joined) {
		said(t, j.back, "never read")
		j.b.Kill()
		if _, err := j.here.Read(make([]byte, 100)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("reading from the dead: %v", err)
		}
		if _, err := j.a.Dial(t.Context(), "tcp", "127.0.0.2:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialling the dead: %v", err)
		}
		if _, err := j.b.Dial(t.Context(), "tcp", "127.0.0.1:80"); !errors.Is(err, syscall.ENETDOWN) {
			t.Errorf("the dead dial: %v", err)
		}
		again := j.net.Host(j.b.addr)
		if _, err := again.Listen(t.Context(), "tcp", "127.0.0.2:80"); err != nil {
			t.Errorf("the next process cannot listen: %v", err)
		}
	})
	bubble("the dead are not heard of over a cut", t, func(t *testing.T, j joined) {
		j.net.Cut(j.b.addr, j.a.addr)
		j.b.Kill()
		within(t, j.here, time.Minute)
		if _, err := j.here.Read(one); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("reading over a cut: %v", err)
		}
	})
	bubble("a dial over a cut", t, func(t *testing.T, j joined) {
		j.net.Cut(j.b.addr, j.a.addr)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := j.a.Dial(ctx, "tcp", "127.0.0.2:80"); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("it ended with %v after %s", err, time.Since(began))
		}
		time.AfterFunc(time.Minute, j.net.Heal)
		if _, err := j.a.Dial(t.Context(), "tcp", "127.0.0.2:80"); err != nil {
			t.Errorf("when the cut was mended: %v", err)
		}
	})
}
