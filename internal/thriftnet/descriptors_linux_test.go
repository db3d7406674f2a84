package thriftnet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/report"
)

// fewDescriptors makes the test binary a server with few file descriptors, instead of a test.
const fewDescriptors = "THRIFTNET_TEST_FEW_DESCRIPTORS"

func init() {
	otherRole = func() {
		if os.Getenv(fewDescriptors) == "" {
			return
		}
		if err := serveWithFewDescriptors(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serveWithFewDescriptors serves until its standard input ends, and says where and how it went.
func serveWithFewDescriptors() error {
	const limit = 32
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	seen := newIncidents()
	s, err := New(Config{
		Name: "report", Address: "127.0.0.1:0", Processor: report.NewReportServiceProcessor(handler{}), Observe: seen.observe,
		MaxConns: 10 * limit, ReadTimeout: time.Minute,
	})
	if err != nil {
		return err
	}
	if err := s.Start(context.Background()); err != nil {
		return err
	}
	fmt.Println(s.Addr())
	<-seen.added // the first incident: accepting has failed
	fmt.Println("failed")
	_, _ = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if seen.count(IncidentAccept) == 0 {
		return fmt.Errorf("no accept failed; incidents: %v", seen.seen)
	}
	return s.Stop(ctx)
}

// A process that has run out of file descriptors serves again as soon as some are freed.
func TestExhaustedDescriptorsAreSurvived(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), fewDescriptors+"=1")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	child.Stderr = &stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	address, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	address = strings.TrimSpace(address)
	var held []net.Conn
	for range 60 { // more than it has descriptors for; all in the middle of a request, so that none is evicted
		c, err := (&net.Dialer{Timeout: bound}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		write(t, c, []byte{0x80, 1})
	}
	if line, err := out.ReadString('\n'); err != nil || line != "failed\n" {
		t.Fatalf("accepting did not fail: %q, %v", line, err)
	}
	for _, c := range held {
		_ = c.Close()
	}
	c, err := Dial(t.Context(), address, ClientConfig{Timeout: bound})
	if err != nil {
		t.Fatal(err)
	}
	mustSend(t, c)
	_ = c.Close()
	_ = stdin.Close()
	if err := child.Wait(); err != nil {
		t.Errorf("%v: %s", err, stderr.String())
	}
}
