package k8stest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// The scrape configuration for Kubernetes finds the pods of the manifests, by a port that they have, and
// names job and cluster as the alert rules want it. Debian's promtool knows no Kubernetes, so it is read here.
func TestTheScrapeConfigurationFindsThePods(t *testing.T) {
	var file struct {
		ScrapeConfigs []struct {
			JobName string `json:"job_name"`
			Relabel []struct {
				SourceLabels  []string `json:"source_labels"`
				Regex, Action string
				TargetLabel   string `json:"target_label"`
			} `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	text, err := os.ReadFile("../../deploy/prometheus/prometheus-kubernetes.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.ScrapeConfigs) != 1 || file.ScrapeConfigs[0].JobName != "lancemaster" {
		t.Fatalf("the jobs are %+v", file.ScrapeConfigs)
	}
	pods := the[*appsv1.StatefulSet](t, objects(t), "StatefulSet").Spec.Template
	labels := map[string]bool{}
	for _, r := range file.ScrapeConfigs[0].Relabel {
		labels[r.TargetLabel] = true
		if r.Action != "keep" {
			continue
		}
		kept := 0
		for _, port := range pods.Spec.Containers[0].Ports {
			values := map[string]string{
				"__meta_kubernetes_pod_label_app_kubernetes_io_name": pods.Labels["app.kubernetes.io/name"],
				"__meta_kubernetes_pod_container_port_name":          port.Name,
			}
			var joined []string
			for _, l := range r.SourceLabels {
				joined = append(joined, values[l])
			}
			if regexp.MustCompile("^(?:" + r.Regex + ")$").MatchString(strings.Join(joined, ";")) {
				kept++
			}
		}
		if kept != 1 {
			t.Errorf("%s keeps %d ports of each pod", r.Regex, kept)
		}
	}
	if !labels["cluster"] || !labels["instance"] {
		t.Errorf("targets get the labels %v", labels)
	}
}
