package job_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

// TestSecretsNotPrinted: no way of printing shows a secret.
func TestSecretsNotPrinted(t *testing.T) {
	i := &job.Invocation{Job: 7, InvocationID: "inv-7", Secret: "hunter2", StorageOptions: map[string]string{"k": "hunter2"}}
	h := job.HeartbeatRequest{Backend: 3, Token: "hunter2"}
	for _, v := range []any{i, *i, []*job.Invocation{i}, []any{i}, struct{ I *job.Invocation }{i}, h, &h, []job.HeartbeatRequest{h}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "hunter2") || strings.Contains(text, "68756e746572") {
				t.Errorf("%s of %T: %s", verb, v, text)
			}
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
		if strings.Contains(out.String(), "hunter2") {
			t.Errorf("slog of %T: %s", v, out.String())
		}
	}
	if got := i.String(); got != "invocation(job 7, inv-7)" {
		t.Error(got)
	}
}
