package raftnode

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func TestRaftLogger(t *testing.T) {
	var out bytes.Buffer
	handler := func(level slog.Level) slog.Handler {
		return slog.NewTextHandler(&out, &slog.HandlerOptions{
			Level: level,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})
	}
	var l hclog.Logger = newRaftLogger(slog.New(handler(slog.LevelDebug)))
	l = l.Named("raft").With("peer", "m2")
	l.Trace("t")
	l.Debug("d", "a", 1)
	l.Info("i", "servers", hclog.Fmt("%+v", []int{1, 2}))
	l.Warn("w")
	l.Error("e", "error", "x")
	l.Error("failed to heartbeat to", "peer", "m3")
	l.Log(hclog.Off, "never")
	l.StandardLogger(nil).Print("standard")
	want := strings.TrimPrefix(`
level=DEBUG msg=t peer=m2
level=DEBUG msg=d peer=m2 a=1
level=INFO msg=i peer=m2 servers="[1 2]"
level=WARN msg=w peer=m2
level=ERROR msg=e peer=m2 error=x
level=DEBUG msg="failed to heartbeat to" peer=m2 peer=m3
level=INFO msg=standard peer=m2
`, "\n")
	if out.String() != want {
		t.Errorf("logged\n%swant\n%s", out.String(), want)
	}
	if l.Name() != "raft" || l.Named("x").Name() != "raft.x" || l.ResetNamed("y").Name() != "y" || len(l.ImpliedArgs()) != 2 {
		t.Error("name or arguments are lost")
	}
	for level, of := range map[slog.Level]hclog.Level{
		slog.LevelDebug: hclog.Debug, slog.LevelInfo: hclog.Info, slog.LevelWarn: hclog.Warn, slog.LevelError: hclog.Error,
	} {
		l := newRaftLogger(slog.New(handler(level)))
		if l.GetLevel() != of || l.IsTrace() != l.IsDebug() || l.IsError() == false {
			t.Errorf("%s becomes %s", level, l.GetLevel())
		}
	}
}

// opaque is like Raft itself: all that JSON could show of it is its text.
type opaque struct{ at string }

func (o *opaque) String() string { return "Node at " + o.at }

func TestRaftLoggerShowsValuesAsText(t *testing.T) {
	var out bytes.Buffer
	l := newRaftLogger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})))
	l.Info("entering follower state", "follower", &opaque{"m1:1"}, "peer", raft.Server{ID: "m2", Address: "m2:1"})
	l.With("leader", &opaque{"m3:1"}).Info("i", "state", raft.Leader, "none", (*opaque)(nil), "took", time.Second, "error", errors.New("x"))
	want := `{"msg":"entering follower state","follower":"Node at m1:1","peer":"m2 at m2:1"}
{"msg":"i","leader":"Node at m3:1","state":"Leader","none":"<nil>","took":1000000000,"error":"x"}
`
	if out.String() != want {
		t.Errorf("logged\n%swant\n%s", out.String(), want)
	}
}
