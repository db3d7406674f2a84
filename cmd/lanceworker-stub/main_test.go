package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestServesUntilToldToStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	var log bytes.Buffer
	cmd := command(in, &log)
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--heartbeat-listen", "127.0.0.1:0", "--log-format", "json"})
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = in.CloseWithError(io.EOF)
		done <- err
	}()
	line := make([]byte, 256)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`accepts no work; backend (\S+) heartbeat (\S+)\n$`).FindSubmatch(line[:n])
	if said == nil {
		t.Fatalf("it says %q", line[:n])
	}
	for _, address := range said[1:] {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", string(address))
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		_ = c.Close()
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not stop")
	}
	if !strings.Contains(log.String(), `"msg":"stub backend listens"`) {
		t.Errorf("the log is %q", log.String())
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"--log-format", "xml"}, {"--no-such-flag"}, {"argument"}, {"--listen", "no-port", "--heartbeat-listen", "127.0.0.1:0"}} {
		cmd := command(io.Discard, io.Discard)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	var out bytes.Buffer
	cmd := command(&out, io.Discard)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), "lanceworker-stub version ") {
		t.Errorf("--version says %q, %v", out.String(), err)
	}
}
