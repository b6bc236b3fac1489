// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import "testing"

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
