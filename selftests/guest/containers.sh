#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The recipes of Documentation/containers.rst limit containers of Podman, Docker, systemd-nspawn and
# LXC. Scripts, files and commands are taken from the page. $PARTS chooses.
#
#  1. With each recipe what a container sends and receives has the rate of the page, within 2 %,
#     nothing is lost, and the sockets of the container are held.
#  2. A container that did not ask for a limit has none.
#  3. After the end of a container there is no device and no shaper of it.
#  4. A hook that fails keeps a container of Podman, Docker or LXC from starting.
#  5. The first process of a container of Docker has the limit from its first byte on.

# shellcheck source=lib/root.sh
. "$(dirname "$0")/lib/root.sh"
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/containers.sh
. "$(dirname "$0")/lib/containers.sh"

# --- the host's network

# uplink: eth0 to $rx
uplink()
{
	ip link show eth0 >/dev/null 2>&1 && return
	must ip netns add "$rx"
	must ip link add eth0 type veth peer name rxdev netns "$rx"
	must ip addr add 10.99.0.1/24 dev eth0
	must ip link set eth0 up
	must ip -n "$rx" addr add 10.99.0.2/24 dev rxdev
	must ip -n "$rx" link set rxdev up
}

# host_network NAME OPTIONS IMAGE LINES PID...: a cgroup as there is no systemd that makes a slice; PID
# is a command
host_network()
{
	local name=$1 cgroup

	uplink
	nft flush ruleset
	mkdir -p /sys/fs/cgroup/bulk
	{
		page_lines 'tc qdisc replace dev eth0 root handle' 'tc class add'
		page_lines 'nft add table' 'nft add rule'
	} | sed 's/bulk[.]slice/bulk/' >/tmp/recipe
	must bash -e /tmp/recipe
	page_run "$name" "$2" "$3" "$(sed 's/bulk[.]slice/bulk/' <<<"$4")"
	cgroup=$(sed -n 's/^0:://p' "/proc/$("${@:5}")/cgroup")
	is "$name: its cgroup is below that of the rule" /bulk/ "${cgroup:0:6}"
	# Its exit status is that of traffic.
	must in_cgroup "/sys/fs/cgroup$cgroup" traffic --rx-netns "$rx" --dst 10.99.0.2
	rate_is "from it" 20
	check_num "$name: its sockets are held" \
		"$(tc -s -j qdisc show dev eth0 root | json_get throttles)" '>' 8
	must tc qdisc del dev eth0 root
}

in_cgroup() { (echo $BASHPID >"$1/cgroup.procs" && "${@:2}"); }

# --- Podman

# podman_backend NAME: nothing is left of another one
podman_backend()
{
	rm -rf /var/lib/containers /run/containers
	mkdir -p /etc/containers
	cat >/etc/containers/containers.conf <<-END
		[engine]
		cgroup_manager = "cgroupfs"
		events_logger = "none"
		hooks_dir = ["/etc/containers/oci/hooks.d"]
		runtime = "crun"
		[network]
		network_backend = "$1"
	END
	printf '%s\n' '[storage]' 'driver = "vfs"' 'runroot = "/run/containers/storage"' \
		'graphroot = "/var/lib/containers/storage"' >/etc/containers/storage.conf
}

podman_pid() { podman inspect -f '{{.State.Pid}}' "$name"; }

# podman_end: what podman rm removes, conmon may still be at
podman_end() { must quiet podman rm -f -t 0 "$name"; }

part_podman()
{
	local name=podman

	podman_backend netavark
	page_file /etc/containers/oci/hooks.d/bpshaper.json
	page_file /usr/local/libexec/bpshaper-hook
	must quiet podman network create --internal --disable-dns --subnet 10.91.0.0/24 tiny
	page_run $name "--network tiny --rootfs" $tiny "$(page_lines 'podman run .*\\$' '.*receives=30mbit')"
	attached "$(podman_pid)"
	# The host has no address on an internal network.
	must ip addr add 10.91.0.254/24 dev podman1
	limited eth0 10.91.0.254 "$(address)"
	podman_end
	ended
	must quiet podman run -d --name $name --network tiny --rootfs $tiny sleep 1000
	unlimited
	podman_end
	refused "a hook that fails keeps a container of Podman from starting" podman run -d --name $name \
		--network tiny --annotation bpshaper.sends=fast --rootfs $tiny sleep 1000
	podman rm -f -t 0 $name >/dev/null 2>&1
	ended
	host_network podman-host --rootfs $tiny "$(page_lines 'podman run .*--network host')" \
		podman inspect -f '{{.State.Pid}}' podman-host
	must quiet podman rm -f -t 0 podman-host
}

part_podman_cni()
{
	local name=podman-cni

	podman_backend cni
	page_file /etc/cni/net.d/shaped.conflist
	page_run $name --rootfs $tiny "$(page_lines 'podman run .*--network shaped')"
	attached "$(podman_pid)"
	limited eth0 "$(host_address shaped0)" "$(address)"
	podman_end
	ended
}

# --- Docker

docker_start()
{
	dockerd --iptables=false --ip6tables=false --ip-masq=false --storage-driver vfs \
		--bip 10.92.0.1/24 >/tmp/dockerd 2>&1 &
	dockerd=$!
	must wait_until 60 docker version || cat /tmp/dockerd
	must quiet docker import - tiny < <(tar -C $tiny -c .)
}

docker_end()
{
	kill $dockerd
	wait $dockerd
}

# docker_first: the first process of the container sends at once, 600 ms at its rate
docker_first()
{
	local out=/tmp/law receiver law_pid burst

	# Its input is open and says nothing.
	mkfifo /tmp/nothing
	timeout 30 busybox nc -l -p 5001 <>/tmp/nothing >/dev/null &
	receiver=$!
	"$law" docker0 2500000 10 >$out &
	law_pid=$!
	page_run $name "--security-opt apparmor=unconfined" "tiny send" "$(page_lines 'docker run .*-e')"
	wait $receiver $law_pid
	attached "$(docker inspect -f '{{.State.Pid}}' $name)"
	burst=$(ip netns exec $name tc -j qdisc show dev eth0 root | json_get burst)
	check_num "$name: all that its first process sent was seen" "$(json_get bytes <$out)" '>=' 1500000
	check_num "$name: no window of it exceeds burst + rate * T" "$(json_get max_level_bytes <$out)" \
		'<=' $((burst + 13))
}

part_docker()
{
	local name=docker words

	page_file /etc/docker/daemon.json
	page_file /usr/local/sbin/runc-bpshaper
	printf '%s\n' '#!/bin/sh' 'busybox head -c 1500000 /dev/zero | busybox nc 10.92.0.1 5001' \
		'exec "$@"' >$tiny/bin/send
	chmod +x $tiny/bin/send
	docker_start
	docker_first
	limited eth0 "$(host_address docker0)" "$(address)"
	must quiet docker rm -f $name
	ended
	must quiet docker run -d --security-opt apparmor=unconfined --name $name tiny sleep 1000
	unlimited
	must quiet docker rm -f $name
	for words in "-e BPSHAPER_SENDS=fast -e BPSHAPER_RECEIVES=30mbit" "-e BPSHAPER_RECEIVES=30mbit"; do
		# shellcheck disable=SC2086 # words
		refused "a container of Docker with $words does not start" docker run -d --name $name \
			--security-opt apparmor=unconfined $words tiny sleep 1000
		must quiet docker rm -f $name
	done
	ended
	host_network docker-host "--security-opt apparmor=unconfined" tiny \
		"$(page_lines 'docker run .*--network host')" docker inspect -f '{{.State.Pid}}' docker-host
	must quiet docker rm -f docker-host
	docker_end
}

# --- systemd-nspawn, by the commands of its unit

unit_runs() { sed -n "s/^$1=-\?//p" /tmp/unit >/tmp/recipe; must bash -e /tmp/recipe; }

part_nspawn()
{
	local name=nspawn machine unit=/etc/systemd/system/systemd-nspawn@web.service.d/bpshaper.conf

	page_file $unit
	cp $unit /tmp/unit
	systemd-nspawn --quiet --register=no --keep-unit --network-veth --machine web -D $tiny \
		/bin/sleep 1000 </dev/null >/tmp/nspawn 2>&1 &
	machine=$!
	must wait_until 20 nspawn_pid
	unit_runs ExecStartPost
	# Also where the limits are set
	unit_runs ExecStartPost
	attached "$(nspawn_pid)"
	ends_address ve-web host0
	limited ifb-web 10.93.0.1 10.93.0.2
	kill -KILL "$(nspawn_pid)"
	wait $machine
	unit_runs ExecStopPost
	ended
}

# The init of the machine: the process that is the first of its namespace, and sleeps
nspawn_pid() { pgrep -f '^/bin/sleep 1000'; }

# ends_address HOST POD: of a veth on no bridge
ends_address()
{
	must ip addr add 10.93.0.1/24 dev "$1"
	must ip link set "$1" up
	must ip -n "$name" addr add 10.93.0.2/24 dev "$2"
	must ip -n "$name" link set "$2" up
}

# --- LXC

# lxc_container NAME LINES...
lxc_container()
{
	mkdir -p "/var/lib/lxc/$1"
	{
		echo "lxc.rootfs.path = dir:$tiny"
		echo "lxc.apparmor.profile = unconfined"
		echo "lxc.init.cmd = /bin/sleep 1000"
		echo "lxc.net.0.type = veth"
		echo "lxc.net.0.link = lxcbr0"
		echo "lxc.net.0.flags = up"
		echo "lxc.net.0.ipv4.address = 10.94.0.2/24"
		printf '%s\n' "${@:2}"
	} >"/var/lib/lxc/$1/config"
}

part_lxc()
{
	local name=lxc lines

	must ip link add lxcbr0 type bridge
	must ip addr add 10.94.0.1/24 dev lxcbr0
	must ip link set lxcbr0 up
	lines=$(page_lines 'lxc.hook.version' 'lxc.hook.start-host = .*PID')
	lxc_container $name "$lines"
	must lxc-start -n $name
	attached "$(lxc-info -n $name -p -H)"
	limited eth0 10.94.0.1 10.94.0.2
	must lxc-stop -k -n $name
	ended
	lxc_container $name "${lines/20mbit/fast}"
	refused "a hook that fails keeps a container of LXC from starting" lxc-start -n $name
	name=lxc-veth
	lxc_container $name "$(page_lines 'lxc.net.0.veth.pair' 'lxc.hook.post-stop')"
	must lxc-start -n $name
	attached "$(lxc-info -n $name -p -H)"
	limited ifb-web 10.94.0.1 10.94.0.2
	must lxc-stop -k -n $name
	ended
	ip link del lxcbr0
}

[ -e "$page" ] && type -P podman dockerd systemd-nspawn lxc-start >/dev/null ||
	skip_all "the page, or the programs for containers, are not here: selftests/vm/containers-bundle"
export PATH=$PATH:/usr/local/sbin
modprobe -a veth bridge sch_bpshaper
modprobe ifb numifbs=0
tiny_make
page_file /usr/local/sbin/limit-container
page_file /usr/local/sbin/limit-veth
for part in ${PARTS:-podman podman_cni docker nspawn lxc}; do
	"part_$part"
done
finish
