//go:build nextlevel

package command

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

var laterCommands = []job.Command{job.Annotate{}}

// levelTwo are values that only level 2 can carry.
func levelTwo() map[string]any {
	made := map[string]any{}
	for name, zero := range map[string]any{
		"command TERM_START": job.TermStart{}, "command ANNOTATE": job.Annotate{},
		"record CLUSTER": job.Cluster{}, "record EVENT": job.Event{},
	} {
		made[name] = subject{kind: kind{name: name}, zero: zero}.make(later{&full{}})
	}
	event := as[job.Event](made["record EVENT"])
	event.Kind = job.EventAnnotated
	made["record EVENT"] = event
	return made
}

func encodeAny(v any) ([]byte, error) {
	switch v := v.(type) {
	case job.Cluster:
		return EncodeCluster(v)
	case job.Event:
		return EncodeEvent(v)
	default:
		return Encode(as[job.Command](v))
	}
}

// TestLevelTwo pins the bytes of level 2, which the normal build's tests read. They
// come back as they were, and nothing of them passes as level 1.
func TestLevelTwo(t *testing.T) {
	var text strings.Builder
	values := levelTwo()
	for _, name := range []string{"command TERM_START", "command ANNOTATE", "record CLUSTER", "record EVENT"} {
		data, err := encodeAny(values[name])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s: %s\n", name, hex.EncodeToString(data))
		if data[2] != 2 || job.LevelOf(values[name]) != 2 {
			t.Errorf("%s is encoded at level %d", name, data[2])
		}
		if back, err := decodeAny(name, data); err != nil || !reflect.DeepEqual(back, values[name]) {
			t.Errorf("%s: %+v came back as %+v (%v)", name, values[name], back, err)
		}
		lowered := append([]byte(nil), data...)
		lowered[2] = 1
		if _, err := decodeAny(name, lowered); !errors.As(err, new(*CorruptError)) {
			t.Errorf("%s at level 1 is answered by %v", name, err)
		}
	}
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(levelTwoFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(levelTwoFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range pinnedLevelTwo(t) {
		if back, err := decodeAny(name, data); err != nil || !reflect.DeepEqual(back, values[name]) {
			t.Errorf("pinned %s: %+v, %v", name, back, err)
		}
	}
	if golden, err := os.ReadFile(levelTwoFile); err != nil || string(golden) != text.String() {
		t.Errorf("the bytes differ from what is pinned (%v); now they are\n%s", err, text.String())
	}
}

// TestEncodeAtRefusesLevelTwo: not before the level is in force.
func TestEncodeAtRefusesLevelTwo(t *testing.T) {
	for name, v := range levelTwo() {
		c, ok := v.(job.Command)
		if !ok {
			continue
		}
		for level := range int32(2) {
			_, err := EncodeAt(level, c)
			if !errors.As(err, new(*InvalidError)) || !strings.Contains(err.Error(), "raise the level") {
				t.Errorf("%s at level %d is answered by %v", name, level, err)
			}
		}
		if _, err := EncodeAt(2, c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHigherEnvelope: what fits level 1 is not read in an envelope of level 2, since
// each value has one encoding.
func TestHigherEnvelope(t *testing.T) {
	data, err := Encode(job.TermStart{Header: job.Header{At: 1, Actor: "ann"}, Term: 2})
	if err != nil {
		t.Fatal(err)
	}
	data[2] = 2
	if _, err := Decode(data); !errors.As(err, new(*CorruptError)) {
		t.Errorf("Decode answers %v", err)
	}
}
