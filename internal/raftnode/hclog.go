package raftnode

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// raftLogger lets Raft log through slog.
type raftLogger struct {
	log     *slog.Logger
	name    string
	implied []any
}

func newRaftLogger(log *slog.Logger) *raftLogger {
	return &raftLogger{log: log}
}

// chatter is what Raft repeats several times a second while another member is down or a vote is
// under way, always together with one of its lines that say it once.
var chatter = map[string]bool{
	"failed to heartbeat to":                                   true,
	"failed to appendEntries to":                               true,
	"failed to make requestVote RPC":                           true,
	"failed to send snapshot to":                               true,
	"failed to decode incoming command":                        true,
	"failed to flush response":                                 true,
	"appendEntries rejected, sending older logs":               true,
	"failed to get previous log":                               true,
	"pre-vote successful, starting election":                   true,
	"pre-vote campaign failed, waiting for election timeout":   true,
	"Election timeout reached, restarting election":            true,
	"rejecting pre-vote request since we have a leader":        true,
	"rejecting vote request since we have a leader":            true,
	"entering candidate state":                                 true,
	"added peer, starting replication":                         true,
	"unable to get address for server, using fallback address": true,
	"no logs to truncate":                                      true,
}

// level is the slog level of one of Raft's lines.
func level(of hclog.Level, msg string) slog.Level {
	if chatter[msg] {
		return slog.LevelDebug
	}
	if msg == "heartbeat timeout reached, starting election" {
		return slog.LevelInfo // at every start, too; that a leader is missing is said elsewhere
	}
	switch of {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Info:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Log writes one line.
func (l *raftLogger) Log(of hclog.Level, msg string, args ...any) {
	to := level(of, msg)
	if of == hclog.Off || !l.log.Enabled(context.Background(), to) {
		return
	}
	l.log.Log(context.Background(), to, msg, plain(args)...)
}

// plain replaces the values that hclog formats late.
func plain(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		switch arg := arg.(type) {
		case hclog.Format:
			if len(arg) == 0 {
				continue
			}
			if text, ok := arg[0].(string); ok {
				out[i] = fmt.Sprintf(text, arg[1:]...)
			}
		case raft.Server:
			out[i] = fmt.Sprintf("%s at %s", arg.ID, arg.Address)
		case error, time.Time, time.Duration:
			// slog has a form of its own for these.
		case fmt.Stringer:
			// Without exported fields, such as Raft itself, it would be {} in a JSON log.
			out[i] = fmt.Sprint(arg) // not String(): fmt survives a nil pointer
		}
	}
	return out
}

// Trace, Debug, Info, Warn and Error write one line of that level.
func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug writes one line.
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info writes one line.
func (l *raftLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn writes one line.
func (l *raftLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error writes one line.
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLogger) enabled(at slog.Level) bool { return l.log.Enabled(context.Background(), at) }

// IsTrace says whether trace lines are written.
func (l *raftLogger) IsTrace() bool { return l.enabled(slog.LevelDebug) }

// IsDebug says whether debug lines are written.
func (l *raftLogger) IsDebug() bool { return l.enabled(slog.LevelDebug) }

// IsInfo says whether info lines are written.
func (l *raftLogger) IsInfo() bool { return l.enabled(slog.LevelInfo) }

// IsWarn says whether warnings are written.
func (l *raftLogger) IsWarn() bool { return l.enabled(slog.LevelWarn) }

// IsError says whether errors are written.
func (l *raftLogger) IsError() bool { return l.enabled(slog.LevelError) }

// ImpliedArgs returns what With has added.
func (l *raftLogger) ImpliedArgs() []any { return slices.Clone(l.implied) }

// With returns a logger that adds args to each line.
func (l *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{log: l.log.With(plain(args)...), name: l.name, implied: append(l.ImpliedArgs(), args...)}
}

// Name returns the logger's name.
func (l *raftLogger) Name() string { return l.name }

// Named returns a logger with name added to its own.
func (l *raftLogger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

// ResetNamed returns a logger with that name.
func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	return &raftLogger{log: l.log, name: name, implied: l.implied}
}

// SetLevel does nothing: the level is the slog handler's.
func (l *raftLogger) SetLevel(hclog.Level) {}

// GetLevel returns the lowest level that is written.
func (l *raftLogger) GetLevel() hclog.Level {
	switch {
	case l.IsDebug():
		return hclog.Debug
	case l.IsInfo():
		return hclog.Info
	case l.IsWarn():
		return hclog.Warn
	default:
		return hclog.Error
	}
}

// StandardLogger returns a logger of the standard library that writes here.
func (l *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.log.Handler(), slog.LevelInfo)
}

// StandardWriter returns a writer whose lines are written here.
func (l *raftLogger) StandardWriter(options *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(options).Writer()
}

var _ hclog.Logger = (*raftLogger)(nil)
