package stubcli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/stub"
)

func TestServesUntilToldToStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	var log bytes.Buffer
	cmd := Command(in, &log)
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

// A simulation says that it is one, and looks restarted after SIGHUP.
func TestSimulates(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	out := bufio.NewReader(r)
	var log bytes.Buffer
	cmd := Command(w, &log)
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--heartbeat-listen", "127.0.0.1:0", "--simulate", "a*:hang", "--simulate", "close"})
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = w.CloseWithError(io.EOF)
		done <- err
	}()
	if line, err := out.ReadString('\n'); err != nil || !strings.HasPrefix(line, "lanceworker-stub SIMULATES outcomes and builds no index; backend 127.0.0.1:") {
		t.Fatalf("it says %q, %v", line, err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().UnixMilli()
	for range 2 {
		if err := self.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		line, err := out.ReadString('\n')
		text, found := strings.CutPrefix(line, "lanceworker-stub simulates a restart; process epoch ")
		epoch, numErr := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || !found || numErr != nil || epoch < before {
			t.Fatalf("after SIGHUP it says %q, %v", line, err)
		}
		before = epoch + 1 // each process has another epoch
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
	if !strings.Contains(log.String(), "outcomes are SIMULATED") {
		t.Errorf("the log is %q", log.String())
	}

	var help bytes.Buffer
	cmd = Command(&help, io.Discard)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(help.String(), "SIMULATED") {
		t.Errorf("the help says %q, %v", help.String(), err)
	}
	if cfg, err := simulating(stub.Config{Version: "v"}, []string{"hang"}); err != nil || cfg.Version != "v SIMULATED" || cfg.Behaviour == nil {
		t.Errorf("the version that heartbeats tell is %q, %v", cfg.Version, err)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"--log-format", "xml"}, {"--no-such-flag"}, {"argument"}, {"--simulate", "restart"}, {"--tls-ca", "ca.crt"}, {"--tls-cert", "be-1.crt"}, {"--tls-cert", "absent.crt", "--tls-key", "absent.key"}, {"--simulate", "hang", "--simulate", "close"}, {"--listen", "no-port", "--heartbeat-listen", "127.0.0.1:0"}} {
		cmd := Command(io.Discard, io.Discard)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	var out bytes.Buffer
	cmd := Command(&out, io.Discard)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), "lanceworker-stub version ") {
		t.Errorf("--version says %q, %v", out.String(), err)
	}
}
