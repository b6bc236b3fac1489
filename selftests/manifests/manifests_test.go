// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// The Helm chart and kustomize, in tools/kubernetes, make the same objects, and the types of
// the API take these. The libraries are those of helm template and kubectl kustomize.
package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const dir = "../../tools/kubernetes"

// types are those of the API by version and kind.
var types = map[string]func() metav1.Object{
	"v1 Service":                               func() metav1.Object { return &corev1.Service{} },
	"v1 ConfigMap":                             func() metav1.Object { return &corev1.ConfigMap{} },
	"v1 ServiceAccount":                        func() metav1.Object { return &corev1.ServiceAccount{} },
	"apps/v1 DaemonSet":                        func() metav1.Object { return &appsv1.DaemonSet{} },
	"rbac.authorization.k8s.io/v1 Role":        func() metav1.Object { return &rbacv1.Role{} },
	"rbac.authorization.k8s.io/v1 RoleBinding": func() metav1.Object { return &rbacv1.RoleBinding{} },
	"rbac.authorization.k8s.io/v1 ClusterRole": func() metav1.Object { return &rbacv1.ClusterRole{} },
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding": func() metav1.Object {
		return &rbacv1.ClusterRoleBinding{}
	},
	monitoring.GroupName + "/v1 PodMonitor":     func() metav1.Object { return &monitoringv1.PodMonitor{} },
	monitoring.GroupName + "/v1 PrometheusRule": func() metav1.Object { return &monitoringv1.PrometheusRule{} },
}

// objects by kind and name. A field that the types of the API lack is an error.
func objects(t *testing.T, text string) map[string]metav1.Object {
	t.Helper()
	found := map[string]metav1.Object{}
	for _, part := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		var kind metav1.TypeMeta

		if err := yaml.Unmarshal([]byte(part), &kind); err != nil {
			t.Fatalf("%v: %s", err, part)
		}
		if kind.Kind == "" {
			continue
		}
		create, ok := types[kind.APIVersion+" "+kind.Kind]
		if !ok {
			t.Fatalf("what is %v?", kind)
		}
		object := create()
		if err := yaml.UnmarshalStrict([]byte(part), object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		key := kind.Kind + " " + object.GetName()
		if found[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		found[key] = object
	}
	return found
}

// helm is what helm template prints with these values.
func helm(t *testing.T, namespace string, values ...string) map[string]metav1.Object {
	t.Helper()
	var text strings.Builder

	chart, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	for _, some := range values {
		more, err := chartutil.ReadValues([]byte(some))
		if err != nil {
			t.Fatal(err)
		}
		given = chartutil.CoalesceTables(more, given)
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "bpshaper",
		Namespace: namespace}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text.WriteString("\n---\n" + file)
	}
	return objects(t, text.String())
}

// kustomize is what kubectl kustomize prints for these directories.
func kustomize(t *testing.T, names ...string) map[string]metav1.Object {
	t.Helper()
	found := map[string]metav1.Object{}
	for _, name := range names {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(
			filesys.MakeFsOnDisk(), filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := built.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(found, objects(t, string(text)))
	}
	return found
}

func text(t *testing.T, object any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func isSame(t *testing.T, got, want map[string]metav1.Object) {
	t.Helper()
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Fatalf("%q, expected %q", g, w)
	}
	for key := range want {
		if g, w := text(t, got[key]), text(t, want[key]); g != w {
			t.Errorf("%s:\n%s\nexpected:\n%s", key, g, w)
		}
	}
}

const everything = "{monitoring: {enabled: true}, module: {enabled: true}}"

func TestHelmIsKustomize(t *testing.T) {
	isSame(t, helm(t, "kube-system", ""), kustomize(t, "."))
	isSame(t, helm(t, "kube-system", everything), kustomize(t, ".", "monitoring", "module"))
	isSame(t, helm(t, "kube-system", "{agent: {enabled: false}, exporter: {enabled: false}}"),
		map[string]metav1.Object{"DaemonSet bpshaper-cni": kustomize(t, ".")["DaemonSet bpshaper-cni"]})
}

// Each value changes these objects and no others.
func TestValues(t *testing.T) {
	const cni = "DaemonSet bpshaper-cni"

	before := helm(t, "kube-system", everything)
	for _, c := range []struct{ values, want, keys string }{
		{"image: a/b:c", "image: a/b:c",
			"DaemonSet bpshaper-agent, DaemonSet bpshaper-cni, DaemonSet bpshaper-exporter"},
		{"moduleImage: a/b:c", "image: a/b:c", "DaemonSet bpshaper-module"},
		{"nodeSelector: {a: b}", "nodeSelector:\na: b\nkubernetes.io/os: linux\n",
			"DaemonSet bpshaper-agent, DaemonSet bpshaper-cni, DaemonSet bpshaper-exporter, " +
				"DaemonSet bpshaper-module"},
		{"cni: {config: file}", "name: CONFIG\nvalue: file\n", cni},
		{"cni: {conflist: a.conflist}", "name: CONFLIST\nvalue: a.conflist\n", cni},
		{"cni: {keys: {node: {rate: 1gbit}, prio: 4}}",
			`value: '{"node":{"rate":"1gbit"},"prio":4}'`, cni},
		{"cni: {binDir: /a}", "path: /a\ntype: Directory\nname: bin\n", cni},
		{"cni: {confDir: /a}", "path: /a\ntype: Directory\nname: net\n", cni},
		{"agent: {config: {default: {egress-prio: 7}}}", "config.yaml: |-\ndefault:\negress-prio: 7\n",
			"ConfigMap bpshaper-agent"},
		{`exporter: {args: ["--device", "eth.*"]}`, "args:\ndevice\neth.*\n",
			"DaemonSet bpshaper-exporter"},
		{"monitoring: {labels: {release: p}}", "labels:\nrelease: p\n",
			"PodMonitor bpshaper-exporter, PrometheusRule bpshaper-exporter"},
	} {
		var changed []string

		after := helm(t, "kube-system", everything, c.values)
		for key := range before {
			got := text(t, after[key])
			if got == text(t, before[key]) {
				continue
			}
			changed = append(changed, key)
			got = regexp.MustCompile(`(?m)^[ -]+`).ReplaceAllString(got, "")
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %s", c.values, got)
			}
		}
		slices.Sort(changed)
		if got := strings.Join(changed, ", "); got != c.keys {
			t.Errorf("%s changes %s, expected %s", c.values, got, c.keys)
		}
	}
}

func TestNamespace(t *testing.T) {
	for key, object := range helm(t, "elsewhere", everything) {
		if strings.HasPrefix(key, "Cluster") != (object.GetNamespace() == "") {
			t.Errorf("%s is in %q", key, object.GetNamespace())
		}
		if _, isConfig := object.(*corev1.ConfigMap); !isConfig &&
			strings.Contains(text(t, object), "kube-system") {
			t.Errorf("%s has the default namespace", key)
		}
	}
}

// The agent writes Events and a condition, and reads pods and one ConfigMap.
func TestPrivileges(t *testing.T) {
	var got []string

	all := kustomize(t, ".")
	for _, rule := range slices.Concat(all["ClusterRole bpshaper-agent"].(*rbacv1.ClusterRole).Rules,
		all["Role bpshaper-agent"].(*rbacv1.Role).Rules) {
		got = append(got, strings.Join(slices.Concat(rule.Resources, rule.ResourceNames, rule.Verbs), " "))
	}
	want := []string{"pods get list watch", "pods/status patch", "events create patch",
		"configmaps bpshaper-agent get list watch"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, subjects := range [][]rbacv1.Subject{
		all["ClusterRoleBinding bpshaper-agent"].(*rbacv1.ClusterRoleBinding).Subjects,
		all["RoleBinding bpshaper-agent"].(*rbacv1.RoleBinding).Subjects,
	} {
		if len(subjects) != 1 || all["ServiceAccount "+subjects[0].Name] == nil {
			t.Errorf("%+v", subjects)
		}
	}
}

// What the types of the API do not say, and privileges.
func TestPods(t *testing.T) {
	added := map[string]string{"bpshaper-agent": "NET_ADMIN"}
	image, err := os.ReadFile(filepath.Join(dir, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for key, object := range kustomize(t, ".", "module") {
		set, ok := object.(*appsv1.DaemonSet)
		if !ok {
			continue
		}
		pod := set.Spec.Template.Spec
		for label, value := range set.Spec.Selector.MatchLabels {
			if set.Spec.Template.Labels[label] != value {
				t.Errorf("%s does not choose its pods", key)
			}
		}
		var mounts, volumes []string
		for _, volume := range pod.Volumes {
			volumes = append(volumes, volume.Name)
		}
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			for _, mount := range c.VolumeMounts {
				mounts = append(mounts, mount.Name)
			}
			if name := filepath.Base(c.Command[0]); name != "sleep" &&
				!regexp.MustCompile(`/`+name+`[ \n]`).Match(image) {
				t.Errorf("%s: the image has no %s", key, name)
			}
			checkSecurity(t, key+" "+c.Name, c.SecurityContext, added[set.Name])
		}
		slices.Sort(mounts)
		slices.Sort(volumes)
		if !slices.Equal(mounts, volumes) {
			t.Errorf("%s: mounts %q, volumes %q", key, mounts, volumes)
		}
		if pod.ServiceAccountName == "" && (pod.AutomountServiceAccountToken == nil ||
			*pod.AutomountServiceAccountToken) {
			t.Errorf("%s has a token", key)
		}
	}
}

func checkSecurity(t *testing.T, name string, s *corev1.SecurityContext, added string) {
	t.Helper()
	if name == "DaemonSet bpshaper-module module-build" {
		return // writes kernel modules
	}
	if s == nil || s.Privileged != nil || s.AllowPrivilegeEscalation == nil ||
		*s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		strings.Join(strings.Fields(fmt.Sprint(s.Capabilities.Add)), " ") != "["+added+"]" {
		t.Errorf("%s: %+v", name, s)
	}
}

func TestVersion(t *testing.T) {
	chart, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile("../../debian/changelog")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(log, []byte("bpshaper ("+chart.Metadata.Version+")")) {
		t.Errorf("the chart is version %s", chart.Metadata.Version)
	}
}
