# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # shared with others, by common.sh
#
# bpapi, in the place of Kubernetes' API server: what it says, and what is written to it. Sourced
# after common.sh, never run.

bpapi=$here/bpapi api=/tmp/api log=/tmp/api.log

put() { cat >"$1.new" && mv "$1.new" "$1"; }

# pod_says NAMESPACE POD ANNOTATIONS [CONDITION]: what the API says; annotations are members of
# JSON without their prefix, as '"egress-weight": "3"'
pod_says()
{
	put "$api/pods/$2.json" <<-END
	{ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "$1", "name": "$2",
	  "uid": "uid-$2", "creationTimestamp": "2026-01-01T00:00:00Z",
	  "annotations": { ${3//\"egress/\"bpshaper/egress} } },
	  "spec": { "nodeName": "node1" }, "status": { "phase": "Running", "podIP": "10.88.0.9",
	  "conditions": [ ${4-} ] } }
	END
}

# config_says YAML
config_says()
{
	put $api/configmaps/config.json <<-END
	{ "apiVersion": "v1", "kind": "ConfigMap",
	  "metadata": { "namespace": "kube-system", "name": "bpshaper-agent" },
	  "data": { "config.yaml": "$(sed ':a; N; $!ba; s/\n/\\n/g' <<<"$1")" } }
	END
}

api_start()
{
	"$bpapi" 127.0.0.1:8001 $api $log &
	api_pid=$!
	must wait_until 20 listening
}

listening() { ss -Hltn "sport = :8001" | grep -q .; }

# events REASON POD: how many there are
events() { grep "^POST .*/events " $log | grep "\"reason\":\"$1\"" | grep -c "\"name\":\"$2\""; }

# applies_to POD: its condition says so
applies_to() { grep "^PATCH .*/pods/$1/status " $log | tail -n 1 | grep -q '"status":"True"'; }

event_has() { grep "^POST .*/events " $log | grep "\"reason\":\"$1\"" | grep -qF -- "$2"; }
