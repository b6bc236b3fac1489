/* SPDX-License-Identifier: GPL-2.0-only */
/* Wire length: what a packet is charged at the rate, as tbf counts it. */
#ifndef _BPSHAPER_WIRE_H
#define _BPSHAPER_WIRE_H

/**
 * struct bpshaper_wire - how the link frames packets
 * @overhead: bytes on the wire beside those of qdisc_pkt_len()
 * @mpu: least bytes on the wire, @overhead included
 * @is_atm: packets occupy cells of 53 bytes, each with 48 bytes of payload
 * @is_framed: one of the above makes the length differ from qdisc_pkt_len()
 */
struct bpshaper_wire {
	u32	overhead;
	u32	mpu;
	bool	is_atm;
	bool	is_framed;
};

static struct bpshaper_wire bpshaper_wire_make(u32 overhead, u32 mpu,
					       u32 linklayer)
{
	bool is_atm = linklayer == TC_LINKLAYER_ATM;

	return (struct bpshaper_wire) {
		.overhead	= overhead,
		.mpu		= mpu,
		.is_atm		= is_atm,
		.is_framed	= overhead || mpu || is_atm,
	};
}

/* Bytes on the wire of a packet of @len bytes. */
static u32 bpshaper_wire_framed_len(const struct bpshaper_wire *w, u32 len)
{
	len = max(len + w->overhead, w->mpu);
	return w->is_atm ? DIV_ROUND_UP(len, 48) * 53 : len;
}

static u32 bpshaper_wire_len(const struct bpshaper_wire *w,
			     const struct sk_buff *skb)
{
	u32 len = qdisc_pkt_len(skb);

	return likely(!w->is_framed) ? len : bpshaper_wire_framed_len(w, len);
}

#endif /* _BPSHAPER_WIRE_H */
