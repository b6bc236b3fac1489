/* SPDX-License-Identifier: GPL-2.0-only */
/* Packets: what the qdisc remembers about one, and what it asks of one. */
#ifndef _BPSHAPER_SKB_H
#define _BPSHAPER_SKB_H

typedef void (*bpshaper_destructor_t)(struct sk_buff *skb);

/**
 * struct bpshaper_skb_cb - what a queued packet remembers
 * @enqueued_ns: when it was enqueued, CLOCK_MONOTONIC
 * @due_ns: it may not leave earlier, CLOCK_MONOTONIC; @enqueued_ns if it had no
 *	time in the future then
 */
struct bpshaper_skb_cb {
	u64	enqueued_ns;
	u64	due_ns;
};

static inline struct bpshaper_skb_cb *bpshaper_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct bpshaper_skb_cb));
	return (struct bpshaper_skb_cb *)qdisc_skb_cb(skb)->data;
}

static inline u64 bpshaper_skb_due_ns(const struct sk_buff *skb)
{
	return bpshaper_skb_cb(skb)->due_ns;
}

/* Did it have a time in the future when it was enqueued? */
static inline bool bpshaper_skb_is_timed(const struct sk_buff *skb)
{
	return bpshaper_skb_cb(skb)->due_ns > bpshaper_skb_cb(skb)->enqueued_ns;
}

/* Bytes of memory that a packet takes. truesize may be less: TCP charges 2
 * bytes for a pure ACK.
 */
static inline u32 bpshaper_skb_memory(const struct sk_buff *skb)
{
	return max_t(u32, skb->truesize, SKB_TRUESIZE(skb_end_offset(skb)));
}

/* Hash of a socketless packet; never 0. */
static inline u32 bpshaper_skb_pool_hash(struct sk_buff *skb)
{
	return skb_get_hash(skb) ?: 1;
}

/* Hash of the peer that a socket's packet goes to; never 0. skb_get_hash() is
 * no use: all packets of a socket that was ever connected have the hash of that
 * connection. IPv6 makes the flow label from the same hash, so ignore the
 * label.
 */
static u32 bpshaper_skb_peer_hash(const struct sk_buff *skb)
{
	struct flow_keys keys;

	skb_flow_dissect_flow_keys(skb, &keys, 0);
	keys.tags.flow_label = 0;
	return flow_hash_from_keys(&keys) ?: 1;
}

/* Is it an IP fragment? Its sender may be about to send the next one. */
static noinline bool bpshaper_skb_is_fragment(const struct sk_buff *skb)
{
	union {
		struct iphdr	v4;
		struct ipv6hdr	v6;
	} buf, *h;

	if (skb->protocol == htons(ETH_P_IP)) {
		h = skb_header_pointer(skb, skb_network_offset(skb),
				       sizeof(buf.v4), &buf.v4);
		return h && ip_is_fragment(&h->v4);
	}
	if (skb->protocol == htons(ETH_P_IPV6)) {
		h = skb_header_pointer(skb, skb_network_offset(skb),
				       sizeof(buf.v6), &buf.v6);
		return h && h->v6.nexthdr == NEXTHDR_FRAGMENT;
	}
	return false;
}

/* Can @skb get CE, as INET_ECN_set_ce() sees it? */
static bool bpshaper_skb_has_ect(const struct sk_buff *skb)
{
	const u8 *header = skb_network_header(skb);
	const u8 *tail = skb_tail_pointer(skb);

	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP):
		return header + sizeof(struct iphdr) <= tail &&
		       !INET_ECN_is_not_ect(ipv4_get_dsfield(ip_hdr(skb)));
	case htons(ETH_P_IPV6):
		return header + sizeof(struct ipv6hdr) <= tail &&
		       !INET_ECN_is_not_ect(ipv6_get_dsfield(ipv6_hdr(skb)));
	}
	return false;
}

#endif /* _BPSHAPER_SKB_H */
