package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/smallfile"
)

const (
	maxTokenFile      = 256 << 10 // bytes
	tokenFileInterval = 30 * time.Second
	closeGrace        = time.Second
)

// TokenFile holds the tokens of a file, one a line:
//
//	NAME ROLE SHA256HEX
//
// where the hash is over the token's text. Empty lines and lines that begin with # say nothing. The file
// is read again when it changes; what cannot be read changes nothing, and so takes no token's validity. A nil
// TokenFile holds none.
type TokenFile struct {
	path    string
	log     *slog.Logger
	metrics *FileMetrics
	tokens  atomic.Pointer[[]*job.Token]

	mu       sync.Mutex
	inUse    [sha256.Size]byte
	lastSaid string
	loose    bool // whether others could change the file when it was last looked at

	stop chan struct{}
	once sync.Once
	done chan struct{}
}

// FileMetrics say how the last reading of a token file went. A nil FileMetrics says nothing.
type FileMetrics struct{ success prometheus.Gauge }

// NewFileMetrics makes and registers the metric of a node that has a token file; a nil registerer registers nothing.
func NewFileMetrics(registerer prometheus.Registerer) (*FileMetrics, error) {
	m := &FileMetrics{prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lancemaster_tokens_file_reload_success",
		Help: "1 when the file of admin.tokens_file was last read it could be used, else 0: the tokens of before stay valid, those taken out of it since too.",
	})}
	if registerer == nil {
		return m, nil
	}
	return m, registerer.Register(m.success)
}

func (m *FileMetrics) read(err error) {
	switch {
	case m == nil:
	case err == nil:
		m.success.Set(1)
	default:
		m.success.Set(0)
	}
}

// OpenTokenFile reads the file and begins to watch it. The caller closes it.
func OpenTokenFile(path string, log *slog.Logger, metrics *FileMetrics) (*TokenFile, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &TokenFile{path: path, log: log, metrics: metrics, stop: make(chan struct{}), done: make(chan struct{})}
	if err := f.load(); err != nil {
		return nil, err
	}
	f.metrics.read(nil)
	go f.watch()
	return f, nil
}

// Tokens returns the tokens as they were last read.
func (f *TokenFile) Tokens() []*job.Token {
	if f == nil {
		return nil
	}
	return *f.tokens.Load()
}

// Reload reads the file now. After an error the tokens of before stay valid. The error is for the caller to
// tell: the watch does not repeat it.
func (f *TokenFile) Reload() error {
	if f == nil {
		return nil
	}
	_, err := f.look()
	return err
}

// look is Reload; news reports that the fault was not there at the look before.
func (f *TokenFile) look() (news bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err = f.load()
	f.metrics.read(err)
	if err == nil {
		if f.lastSaid != "" {
			f.lastSaid = ""
			f.log.Info("the token file can be used again", "file", f.path)
		}
		return false, nil
	}
	err = fmt.Errorf("%w; the tokens of before stay valid, those taken out of it since too", err)
	news = err.Error() != f.lastSaid
	f.lastSaid = err.Error()
	return news, err
}

// Close ends the watch.
func (f *TokenFile) Close() error {
	if f == nil {
		return nil
	}
	f.once.Do(func() { close(f.stop) })
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-f.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("a read of the token file %s did not end within %s", f.path, closeGrace)
	}
}

func (f *TokenFile) watch() {
	defer close(f.done)
	ticker := time.NewTicker(tokenFileInterval)
	defer ticker.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-ticker.C:
			if news, err := f.look(); news {
				f.log.Error("cannot load the changed token file", "error", err.Error())
			}
		}
	}
}

func (f *TokenFile) load() error {
	content, mode, err := smallfile.Read(f.path, maxTokenFile)
	if err != nil {
		return fmt.Errorf("cannot read the token file: %w", err)
	}
	digest := sha256.Sum256(content)
	if f.tokens.Load() != nil && digest == f.inUse {
		f.tellMode(mode)
		return nil
	}
	tokens, err := parseTokens(string(content))
	if err != nil {
		return fmt.Errorf("token file %s: %w", f.path, err)
	}
	f.tokens.Store(&tokens)
	f.inUse = digest
	f.log.Info("token file loaded", "file", f.path, "tokens", len(tokens))
	f.loose = false
	f.tellMode(mode)
	return nil
}

// tellMode warns when others than its owner may change the file: once, until they no longer may or it is loaded
// anew.
func (f *TokenFile) tellMode(mode fs.FileMode) {
	before := f.loose
	if f.loose = mode&0o022 != 0; f.loose && !before {
		f.log.Warn("the token file may be changed by others than its owner, who could make themselves admin; set its mode to 0600",
			"file", f.path, "mode", fmt.Sprintf("%#o", mode))
	}
}

// parseTokens reads the lines. Its errors repeat nothing of them: somebody may have put a token where
// its hash belongs.
func parseTokens(text string) ([]*job.Token, error) {
	out := []*job.Token{}
	names, hashes := map[string]bool{}, map[job.Hash]bool{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		parts := strings.Fields(line)
		if len(parts) == 0 || strings.HasPrefix(parts[0], "#") {
			continue
		}
		t, err := parseToken(parts)
		switch {
		case err != nil:
		case names[t.Name]:
			err = errors.New("the name is on an earlier line too")
		case hashes[t.Hash]:
			err = errors.New("the hash is on an earlier line too; each name needs a token of its own")
		case len(out) == job.MaxTokens:
			err = fmt.Errorf("there are more than %d tokens", job.MaxTokens)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		names[t.Name], hashes[t.Hash] = true, true
		out = append(out, t)
	}
	return out, nil
}

func parseToken(parts []string) (*job.Token, error) {
	if len(parts) != 3 {
		return nil, errors.New("a line is NAME ROLE SHA256HEX")
	}
	name := parts[0]
	if err := job.CheckCaller(name); err != nil {
		return nil, err
	}
	role, ok := job.ParseRole(parts[1])
	if !ok {
		return nil, errors.New("the role is not read, submit, operate or admin")
	}
	hash, err := hex.DecodeString(parts[2])
	if err != nil || len(hash) != sha256.Size {
		return nil, errors.New("the hash is not 64 hexadecimal digits; it is the SHA-256 of the token's text, never the token itself")
	}
	return &job.Token{Name: name, Role: role, Hash: job.Hash(hash)}, nil
}
