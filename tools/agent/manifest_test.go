// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The ConfigMap of the manifest is one that the agent takes. selftests/manifests has the rest.
func TestManifest(t *testing.T) {
	var conf corev1.ConfigMap

	text, err := os.ReadFile("../kubernetes/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o, _ := parseOptions([]string{"--node", "n"}, nil)
	for _, part := range strings.Split(string(text), "\n---\n") {
		if !strings.Contains(part, "\nkind: ConfigMap\n") {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(part), &conf); err != nil {
			t.Fatal(err)
		}
	}
	if conf.Namespace != o.namespace || conf.Name != o.name {
		t.Errorf("the agent reads %s/%s", o.namespace, o.name)
	}
	if _, err := parseConfig([]byte(conf.Data[configKey])); err != nil || conf.Data[configKey] == "" {
		t.Error(err)
	}
}
