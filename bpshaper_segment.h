/* SPDX-License-Identifier: GPL-2.0-only */
/* Segments: GSO packets that may not leave whole are segmented in software.
 *
 * bpshaper_derive_segment_above() has the bound. Where each segment can be
 * charged to the socket, all join its flow; otherwise they join the pool.
 */
#ifndef _BPSHAPER_SEGMENT_H
#define _BPSHAPER_SEGMENT_H

/* More than TCP makes of 64 kB with the least MSS that the kernel takes: 1366.
 */
#define BPSHAPER_SEGS_MAX	2048

/* Must the packet be segmented? */
static bool bpshaper_skb_must_segment(const struct sk_buff *skb, u32 above)
{
	return unlikely(qdisc_pkt_len(skb) > above) &&
	       skb_is_gso(skb);
}

/* A packet socket can set the header, and with it the number of segments. */
static bool bpshaper_skb_has_too_many_segs(const struct sk_buff *skb)
{
	u32 size = skb_shinfo(skb)->gso_size;

	if (size == GSO_BY_FRAGS)	/* no more than fragments */
		return false;
	return skb->len / size > BPSHAPER_SEGS_MAX;
}

/* The length of @bytes by the qdisc's size table (tc stab), which the core has
 * applied to the packet that a segment was made of. The table has the length
 * for sizes in steps of 2^cell_log; beyond its end it repeats.
 */
static u32 bpshaper_stab_len(const struct Qdisc *sch, u32 bytes)
{
	const struct qdisc_size_table *stab = rcu_dereference_bh(sch->stab);
	const struct tc_sizespec *spec;
	u32 cells, cell;
	s64 len;

	if (!stab)
		return bytes;
	spec = &stab->szopts;
	len = (s64)bytes + spec->overhead;
	if (spec->tsize) {
		cells = spec->tsize;
		cell = max_t(s64, len + spec->cell_align, 0) >> spec->cell_log;
		len = (s64)stab->data[cells - 1] * (cell / cells) +
		      stab->data[cell % cells];
		len <<= spec->size_log;
	}
	return clamp_t(s64, len, 1, S32_MAX);
}

/* skb_segment() moves the socket and the charge of the whole packet to the last
 * segment, if sock_wfree() uncharges. Undo that, and give each segment its own
 * part, as those of TCP and UDP have.
 */
static void bpshaper_segs_set_owner(struct sk_buff *segs, struct sk_buff *skb,
				    struct sock *sk)
{
	struct sk_buff *seg, *last = NULL;
	s64 charge = 0;

	for (seg = segs; seg; seg = seg->next)
		last = seg;
	if (segs->sk || last->sk != sk || last->destructor != sock_wfree)
		return;

	swap(last->truesize, skb->truesize);
	for (seg = segs; seg; seg = seg->next) {
		seg->sk = sk;
		seg->destructor = sock_wfree;
		charge += seg->truesize;
	}
	charge -= skb->truesize;
	if (charge > 0)
		refcount_add(charge, &sk->sk_wmem_alloc);
	else if (charge < 0)	/* never to zero, the segments are charged */
		WARN_ON_ONCE(refcount_sub_and_test(-charge,
						   &sk->sk_wmem_alloc));
}

/* Is each segment charged to the socket, so that all can be in its flow?
 * Segments of fraglist GSO are not, nor are those of the transmit ring of
 * packet sockets up to 6.1.
 */
static bool bpshaper_segs_are_owned(const struct sk_buff *segs,
				    const struct sock *sk)
{
	const struct sk_buff *seg;

	for (seg = segs; seg; seg = seg->next)
		if (seg->sk != sk || !seg->destructor)
			return false;
	return true;
}

/* Segment @skb, which the caller still owns. Return the list of segments, or an
 * error pointer. Clear @destructor if they cannot be in the flow of their
 * socket.
 */
static struct sk_buff *bpshaper_segs_make(struct sk_buff *skb,
					  bpshaper_destructor_t *destructor)
{
	struct sock *sk = skb->sk;
	struct sk_buff *segs;

	if (bpshaper_skb_has_too_many_segs(skb))
		return ERR_PTR(-E2BIG);
	skb_get_hash(skb);	/* the segments inherit it */
	segs = skb_gso_segment(skb,
			       netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	if (!segs)
		return ERR_PTR(-EINVAL);
	if (IS_ERR(segs) || !*destructor)
		return segs;
	bpshaper_segs_set_owner(segs, skb, sk);
	if (!bpshaper_segs_are_owned(segs, sk))
		*destructor = NULL;
	return segs;
}

#endif /* _BPSHAPER_SEGMENT_H */
