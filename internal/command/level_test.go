package command

import (
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

const levelTwoFile = "testdata/level2/values"

// pinnedLevelTwo are values of level 2 as a build that knows it encodes them: in each
// line a command's or record's name, and its bytes.
func pinnedLevelTwo(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(levelTwoFile)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), ": ")
		data, err := hex.DecodeString(digits)
		if err != nil || len(data) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		values[name] = data
	}
	return values
}

// decodeAny decodes what its name says it is.
func decodeAny(name string, data []byte) (any, error) {
	switch name {
	case "record CLUSTER":
		return DecodeCluster(data)
	case "record EVENT":
		return DecodeEvent(data)
	default:
		return Decode(data)
	}
}

// TestEncodeAt: what is proposed fits the level in force. The first level is always.
func TestEncodeAt(t *testing.T) {
	c := job.TermStart{Header: job.Header{At: 1, Actor: "ann"}, Term: 2}
	plain, err := Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	for level := range MaxLevel + 1 {
		data, err := EncodeAt(level, c)
		if err != nil || string(data) != string(plain) {
			t.Errorf("at level %d: %x, %v", level, data, err)
		}
	}
	if _, err := EncodeAt(MaxLevel, nil); !errors.As(err, new(*InvalidError)) {
		t.Errorf("no command is answered by %v", err)
	}
}
