// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifest is daemonset.yaml by kind. A field that the types of the API lack is an error.
func manifest(t *testing.T) map[string]metav1.Object {
	t.Helper()
	text, err := os.ReadFile("daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]metav1.Object{}
	for _, part := range strings.Split(string(text), "\n---\n") {
		var kind metav1.TypeMeta

		if err := yaml.Unmarshal([]byte(part), &kind); err != nil {
			t.Fatal(err)
		}
		object := map[string]metav1.Object{"ServiceAccount": &corev1.ServiceAccount{},
			"ConfigMap": &corev1.ConfigMap{}, "ClusterRole": &rbacv1.ClusterRole{},
			"ClusterRoleBinding": &rbacv1.ClusterRoleBinding{}, "Role": &rbacv1.Role{},
			"RoleBinding": &rbacv1.RoleBinding{}, "DaemonSet": &appsv1.DaemonSet{}}[kind.Kind]
		if err := yaml.UnmarshalStrict([]byte(part), object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		found[kind.Kind] = object
	}
	return found
}

func TestManifest(t *testing.T) {
	found := manifest(t)
	o, _ := parseOptions([]string{"--node", "n"}, nil)
	conf := found["ConfigMap"].(*corev1.ConfigMap)
	if conf.Namespace != o.namespace || conf.Name != o.name {
		t.Errorf("the agent reads %s/%s", o.namespace, o.name)
	}
	if _, err := parseConfig([]byte(conf.Data[configKey])); err != nil {
		t.Error(err)
	}
	set := found["DaemonSet"].(*appsv1.DaemonSet)
	pod := set.Spec.Template.Spec
	account := found["ServiceAccount"].(*corev1.ServiceAccount).Name
	for name, got := range map[string]string{
		"account":            pod.ServiceAccountName,
		"RoleBinding":        found["RoleBinding"].(*rbacv1.RoleBinding).Subjects[0].Name,
		"ClusterRoleBinding": found["ClusterRoleBinding"].(*rbacv1.ClusterRoleBinding).Subjects[0].Name,
	} {
		if got != account {
			t.Errorf("%s: %s", name, got)
		}
	}
	if pod.Containers[0].Env[0].Name != "NODE_NAME" || !pod.HostNetwork ||
		set.Spec.Template.Labels["app.kubernetes.io/name"] != set.Spec.Selector.MatchLabels["app.kubernetes.io/name"] {
		t.Errorf("%+v", set)
	}
	security := pod.Containers[0].SecurityContext
	if security.Privileged != nil || !slices.Equal(security.Capabilities.Add, []corev1.Capability{"NET_ADMIN"}) {
		t.Errorf("%+v", security)
	}
}

// The agent writes Events and a condition, and reads pods and one ConfigMap.
func TestPrivileges(t *testing.T) {
	var got []string

	found := manifest(t)
	for _, rule := range slices.Concat(found["ClusterRole"].(*rbacv1.ClusterRole).Rules,
		found["Role"].(*rbacv1.Role).Rules) {
		got = append(got, strings.Join(slices.Concat(rule.Resources, rule.ResourceNames,
			rule.Verbs), " "))
	}
	want := []string{"pods get list watch", "pods/status patch", "events create patch",
		"configmaps bpshaper-agent get list watch"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
