// Package k8stest holds the Kubernetes manifests and the compose file to their own types. It is a module of its own, since
// those need many others.
package k8stest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const manifests = "../../deploy/kubernetes"

// objects decodes every document of every file strictly: a field that the API does not know fails.
func objects(t *testing.T) map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s: %v", manifests, err)
	}
	out := map[string]any{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(raw)))
		for n := 1; ; n++ {
			buffer := make([]byte, 1<<20)
			size, err := docs.Read(buffer)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if kind, object := decode(t, file, buffer[:size]); object != nil {
				if _, twice := out[kind]; twice {
					t.Errorf("%s: a second %s", file, kind)
				}
				out[kind] = object
			}
		}
	}
	return out
}

// the is the one object of a kind.
func the[T any](t *testing.T, all map[string]any, kind string) T {
	t.Helper()
	object, ok := all[kind].(T)
	if !ok {
		t.Fatalf("the %s in %s is %T", kind, manifests, all[kind])
	}
	return object
}

func decode(t *testing.T, file string, doc []byte) (string, any) {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(doc, &head); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if head.Kind == "" { // comments only
		return "", nil
	}
	object := map[string]any{
		"v1/ConfigMap": &corev1.ConfigMap{}, "v1/Service": &corev1.Service{},
		"apps/v1/StatefulSet": &appsv1.StatefulSet{}, "policy/v1/PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
		"networking.k8s.io/v1/NetworkPolicy": &networkingv1.NetworkPolicy{},
	}[head.APIVersion+"/"+head.Kind]
	if object == nil {
		t.Fatalf("%s: no type for %s %s here", file, head.APIVersion, head.Kind)
	}
	if err := yaml.UnmarshalStrict(doc, object); err != nil {
		t.Fatalf("%s: %s: %v", file, head.Kind, err)
	}
	return head.Kind, object
}

func TestManifests(t *testing.T) {
	all := objects(t)
	set, service := the[*appsv1.StatefulSet](t, all, "StatefulSet"), the[*corev1.Service](t, all, "Service")
	policy, budget := the[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy"), the[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget")
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses || set.Spec.ServiceName != service.Name {
		t.Error("the members' names need a headless service that publishes pods before they are ready")
	}
	labels := set.Spec.Template.Labels
	for what, selector := range map[string]map[string]string{
		"set": set.Spec.Selector.MatchLabels, "service": service.Spec.Selector,
		"budget": budget.Spec.Selector.MatchLabels, "policy": policy.Spec.PodSelector.MatchLabels,
	} {
		for k, v := range selector {
			if labels[k] != v {
				t.Errorf("the %s selects %s=%s, which the pods do not have", what, k, v)
			}
		}
	}
	if budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("more than one member may be away at once")
	}
	pod := set.Spec.Template.Spec
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || *s.RunAsUser != 65532 {
		t.Error("the pod may run as root")
	}
	checkContainer(t, pod.Containers[0])
	checkPorts(t, pod.Containers[0], service, policy)
}

func checkContainer(t *testing.T, c corev1.Container) {
	t.Helper()
	s := c.SecurityContext
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) == 0 {
		t.Error("the container may do more than it needs")
	}
	for name, probe := range map[string]struct {
		got  *corev1.Probe
		want string
	}{"liveness": {c.LivenessProbe, "/livez"}, "startup": {c.StartupProbe, "/livez"}, "readiness": {c.ReadinessProbe, "/readyz?standbyok"}} {
		if probe.got == nil || probe.got.HTTPGet.Path != probe.want {
			t.Errorf("the %s probe does not ask %s", name, probe.want)
		}
	}
}

// checkPorts: each port that a service or policy names is one of the container's.
func checkPorts(t *testing.T, c corev1.Container, service *corev1.Service, policy *networkingv1.NetworkPolicy) {
	t.Helper()
	known := func(p intstr.IntOrString) bool {
		return slices.ContainsFunc(c.Ports, func(have corev1.ContainerPort) bool { return have.Name == p.StrVal })
	}
	for _, p := range service.Spec.Ports {
		if !known(p.TargetPort) {
			t.Errorf("the service's port %s leads nowhere", p.Name)
		}
	}
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			if !known(*p.Port) {
				t.Errorf("the policy opens port %v, which the container does not have", p.Port)
			}
		}
	}
}

// The configuration in the manifests is checked by the product itself; here it is only put where a
// test of the product's finds it, with the environment that a pod gives it.
func TestTheConfigurationIsAFileOfItsOwn(t *testing.T) {
	all := objects(t)
	text := the[*corev1.ConfigMap](t, all, "ConfigMap").Data["lancemaster.yaml"]
	if text == "" {
		t.Fatal("no configuration")
	}
	replicas := int(*the[*appsv1.StatefulSet](t, all, "StatefulSet").Spec.Replicas)
	for n := range replicas {
		if id := fmt.Sprintf("lancemaster-%d", n); !strings.Contains(text, id+": "+id+".lancemaster:9010") {
			t.Errorf("%s is not among the members", id)
		}
	}
}

// The recipe for certificates in the manifest names each host that a member is dialled by.
func TestTheCertificatesRecipeCoversWhatIsDialled(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(manifests, "lancemaster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, hosts, found := strings.Cut(string(text), "--host ")
	if !found {
		t.Fatal("no recipe")
	}
	hosts, _, _ = strings.Cut(hosts, "\n")
	var advertised string
	for _, e := range the[*appsv1.StatefulSet](t, objects(t), "StatefulSet").Spec.Template.Spec.Containers[0].Env {
		if e.Name == "LANCEMASTER_REPORT_ADVERTISE" {
			advertised, _, _ = strings.Cut(e.Value, ":")
		}
	}
	// The recipe is for the namespace that the first lines of the file make.
	advertised = strings.NewReplacer("$(LANCEMASTER_NODE_ID)", "lancemaster-0", "$(NAMESPACE)", "lancemaster").Replace(advertised)
	for _, want := range []string{"lancemaster-0.lancemaster", advertised} {
		if !slices.Contains(strings.Split(hosts, ","), want) {
			t.Errorf("the recipe is for %s, without %s", hosts, want)
		}
	}
}
