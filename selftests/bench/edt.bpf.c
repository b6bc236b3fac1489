// SPDX-License-Identifier: GPL-2.0-only
/* The rival that shapes by earliest departure time: a classifier at clsact stamps each
 * packet with the time at which an aggregate of RATE bits per second may send it, and
 * fq below holds it until then. What would wait for more than HORIZON ns is dropped.
 *
 * As in the kernel's selftests and in Cilium, for all packets together. On several CPUs,
 * of which the part queues has some, they race for the time, as there. With BATCH packets of
 * that priority have a time of their own, which is another RATE.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#define SEC(name) __attribute__((section(name), used))

static __u64 (*bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;

static volatile __u64 last_ns[2];

SEC("tc")
int edt(struct __sk_buff *skb)
{
#ifdef BATCH
	int of = skb->priority == BATCH;
#else
	int of = 0;
#endif
	__u64 now = bpf_ktime_get_ns(), next = last_ns[of];

	if (next < now)
		next = now;
	if (next - now > HORIZON)
		return TC_ACT_SHOT;
	skb->tstamp = next;
	last_ns[of] = next + (__u64)skb->len * 8 * 1000000000ULL / RATE;
	return TC_ACT_UNSPEC;	/* the next filter may choose the queue */
}

char _license[] SEC("license") = "GPL";
