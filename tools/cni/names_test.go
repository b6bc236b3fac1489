// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import "testing"

// Of the tests of bandwidth.
func TestIfbOfBandwidth(t *testing.T) {
	got := ifbOfBandwidth("cni-plugin-bandwidth-test", "dummy")
	if got != "bwpa8eda89404b7" {
		t.Errorf("is %s", got)
	}
}

func TestPod(t *testing.T) {
	for args, want := range map[string]string{
		"IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web-1": "prod/web-1",
		"":                                     "",
		"K8S_POD_NAME=web-1":                   "",
		"K8S_POD_NAMESPACE=prod;K8S_POD_NAME=": "",
		"K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web 1": "",
		";;=;": "",
	} {
		if got := podOf(args); got != want {
			t.Errorf("%q names the pod %q, expected %q", args, got, want)
		}
	}
}
