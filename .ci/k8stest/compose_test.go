package k8stest

import (
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// The compose file is held to the Compose specification by its own loader: a key that it does not know, a
// volume or network that is used and not declared, or a duration it cannot read fails. What the masters in
// it are configured with is tested in internal/config.
func TestComposeFileIsValid(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../../deploy/compose/compose.yaml"}, cli.WithName("lancemaster"))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m1", "m2", "m3", "worker", "prometheus", "grafana"} {
		if _, err := project.GetService(name); err != nil {
			t.Error(err)
		}
	}
}
