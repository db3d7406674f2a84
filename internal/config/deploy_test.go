package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lancemaster/lancemaster/internal/config"
)

// read decodes one YAML document into what a test wants of it.
func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// loads fails unless a node starts with this file and environment, in which each variable is a key's.
func loads(t *testing.T, who, path string, env map[string]string) config.Config {
	t.Helper()
	known := map[string]bool{}
	for _, f := range config.Flags() {
		known[f.Env] = true
	}
	var list []string
	for name, value := range env {
		if strings.HasPrefix(name, "LANCEMASTER_") && !known[name] {
			t.Errorf("%s: %s is no key's variable", who, name)
		}
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	c, err := config.Load(path, list, nil)
	if err != nil {
		t.Fatalf("%s: %v", who, err)
	}
	return c
}

// imageFile is what the image starts with where nothing is mounted.
const imageFile = "../../deploy/docker/lancemaster.yaml"

// variables are those of ours that a Dockerfile or a unit sets.
func variables(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for word := range strings.FieldsSeq(string(text)) {
		word = strings.TrimPrefix(strings.Trim(word, `"'`), "Environment=")
		if name, value, ok := strings.Cut(strings.Trim(word, `"'`), "="); ok && strings.HasPrefix(name, "LANCEMASTER_") {
			out[name] = value
		}
	}
	return out
}

// A file that somebody mounts or installs has the last word: neither image nor unit sets a key by a
// variable, which would win over it without a word.
func TestDeployedFilesAreNotOverruled(t *testing.T) {
	const place = "/etc/lancemaster/lancemaster.yaml"
	if got := variables(t, "../../deploy/docker/Dockerfile"); len(got) != 1 || got["LANCEMASTER_CONFIG"] != place {
		t.Errorf("the image sets %v", got)
	}
	if got := variables(t, "../../deploy/systemd/lancemaster.service"); len(got) != 0 {
		t.Errorf("the unit sets %v", got)
	}
	for path, line := range map[string]string{
		"../../deploy/docker/Dockerfile":            "\nCOPY lancemaster.yaml " + place + "\n",
		"../../deploy/systemd/lancemaster.service":  "\nExecStart=/usr/bin/lancemaster serve --config " + place + "\n",
		"../../deploy/kubernetes/lancemaster.yaml":  "mountPath: " + place + ", subPath: lancemaster.yaml",
		"../../deploy/systemd/lancemaster.sysusers": "/var/lib/lancemaster",
	} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), line) {
			t.Errorf("%s has no %q; %v", path, line, err)
		}
	}
	for path, want := range map[string]string{imageFile: "/var/lib/lancemaster/data", "../../deploy/systemd/lancemaster.yaml": "/var/lib/lancemaster"} {
		c := loads(t, path, path, nil)
		if c.DataDir != want || !c.Sets(config.SourceFile) {
			t.Errorf("%s: the data is in %s, not %s", path, c.DataDir, want)
		}
	}
	if c := loads(t, "image", imageFile, nil); config.Loopback(c.HTTPListen) || !config.Loopback(c.AdminListen) || c.LogFormat != "json" {
		t.Errorf("in the image http listens on %s, admin on %s, and the log is %s", c.HTTPListen, c.AdminListen, c.LogFormat)
	}
}

type service struct {
	Image       string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Entrypoint  []string
}

// What the documentation has a master with certificates set is what one starts with, and others are told
// only of addresses that they can reach.
func TestDeployedWithCertificates(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "On master m1")
	_, example, _ = strings.Cut(example, "```yaml\n")
	example, _, found := strings.Cut(example, "```")
	if !found {
		t.Fatal("there is no example")
	}
	c := loads(t, "m1", file(t, example), map[string]string{"LANCEMASTER_NODE_ID": "m1"})
	for what, address := range map[string]string{"report.listen": c.ReportListen, "report.advertise": c.ReportAdvertise, "raft.listen": c.RaftListen, "raft.advertise": c.RaftAdvertise} {
		if address == "" || config.Loopback(address) {
			t.Errorf("%s is %q", what, address)
		}
	}
}

// Each master of the compose file starts with what it is given, all of them agree, and what is mounted
// is there.
func TestDeployedWithCompose(t *testing.T) {
	const dir = "../../deploy/compose"
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	read(t, filepath.Join(dir, "compose.yaml"), &file)
	masters := map[string]config.Config{}
	published := map[string]string{}
	for name, s := range file.Services {
		for _, p := range s.Ports {
			host := p[:strings.LastIndex(p, ":")]
			if !strings.HasPrefix(p, "127.0.0.1:") || published[host] != "" {
				t.Errorf("%s: publishes %s, which is not loopback's or %s's already", name, p, published[host])
			}
			published[host] = name
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(from, ".") {
				if _, ok := file.Volumes[from]; !ok {
					t.Errorf("%s: there is no volume %s", name, from)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, from)); err != nil {
				t.Errorf("%s: mounts what is not there: %v", name, err)
			}
		}
		if s.Image != "lancemaster:local" || len(s.Entrypoint) > 0 {
			continue
		}
		masters[name] = loads(t, name, imageFile, s.Environment)
		if len(s.Volumes) != 1 || !strings.HasPrefix(masters[name].DataDir, strings.SplitN(s.Volumes[0], ":", 2)[1]+"/") {
			t.Errorf("%s: its data, %s, is not in its volume %v", name, masters[name].DataDir, s.Volumes)
		}
	}
	if len(masters) != 3 {
		t.Fatalf("%d masters", len(masters))
	}
	for name, c := range masters {
		for other := range masters {
			if address, ok := c.MemberAddress(other); !ok || address != other+":9010" {
				t.Errorf("%s: expects %s at %q", name, other, address)
			}
		}
		if c.NodeID != name || c.ReportAdvertise != name+":9020" {
			t.Errorf("%s: is %s and tells backends to report to %s", name, c.NodeID, c.ReportAdvertise)
		}
	}
}

// Each pod of the Kubernetes manifests starts with what it is given.
func TestDeployedOnKubernetes(t *testing.T) {
	const path = "../../deploy/kubernetes/lancemaster.yaml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Kind string
		Data map[string]string
		Spec struct {
			Replicas int
			Template struct {
				Spec struct {
					Containers []struct {
						Env []struct {
							Name, Value string
							ValueFrom   struct {
								FieldRef struct {
									FieldPath string `yaml:"fieldPath"`
								} `yaml:"fieldRef"`
							} `yaml:"valueFrom"`
						}
					}
				}
			}
		}
	}
	var node string
	var set object
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		switch o.Kind {
		case "ConfigMap":
			node = o.Data["lancemaster.yaml"]
		case "StatefulSet":
			set = o
		}
	}
	if node == "" || set.Spec.Replicas != 3 || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("the manifests have %d replicas, %d containers and a configuration of %d bytes",
			set.Spec.Replicas, len(set.Spec.Template.Spec.Containers), len(node))
	}
	for _, pod := range []string{"lancemaster-0", "lancemaster-1", "lancemaster-2"} {
		env := map[string]string{}
		for _, e := range set.Spec.Template.Spec.Containers[0].Env {
			value := e.Value
			for name, known := range env { // those before it, as Kubernetes has it
				value = strings.ReplaceAll(value, "$("+name+")", known)
			}
			switch e.ValueFrom.FieldRef.FieldPath {
			case "":
			case "metadata.name":
				value = pod
			case "metadata.namespace":
				value = "jobs"
			default:
				t.Errorf("%s: %s comes from %s, which this test does not know", pod, e.Name, e.ValueFrom.FieldRef.FieldPath)
			}
			if strings.Contains(value, "$(") {
				t.Errorf("%s: %s is %s, of which a part is not known", pod, e.Name, value)
			}
			env[e.Name] = value
		}
		c := loads(t, pod, file(t, node), env)
		if address, ok := c.MemberAddress(pod); c.NodeID != pod || !ok || address != pod+".lancemaster:9010" {
			t.Errorf("%s: is %s at %q", pod, c.NodeID, address)
		}
		// Backends are in other namespaces too, where the short name is nobody's.
		if want := pod + ".lancemaster.jobs.svc:9020"; c.ReportAdvertise != want {
			t.Errorf("%s: tells backends to report to %s, not %s", pod, c.ReportAdvertise, want)
		}
		if !strings.HasSuffix(c.TLSCertFile, "/"+pod+".crt") || !strings.HasSuffix(c.TLSKeyFile, "/"+pod+".key") {
			t.Errorf("%s: shows the certificate %s with the key %s", pod, c.TLSCertFile, c.TLSKeyFile)
		}
	}
}
