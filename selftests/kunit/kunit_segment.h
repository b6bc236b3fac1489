/* SPDX-License-Identifier: GPL-2.0-only */
/* Segments: which packets are segmented, who owns the segments, and how long
 * they are.
 */

struct bpshaper_must_row {
	const char	*name;
	u32		bytes;
	u32		above;
	u16		gso_size;
	bool		must;
};

static const struct bpshaper_must_row bpshaper_must_rows[] = {
	{ "as large as may be", 1000, 1000, 500, false },
	{ "a byte larger", 1001, 1000, 500, true },
	{ "a byte larger, but no GSO packet", 1001, 1000, 0, false },
	{ "each frame pays", 1, 0, 500, true },
	{ "no rate", U32_MAX, U32_MAX, 500, false },
};

BPSHAPER_ROWS(must);

static void bpshaper_must_test(struct kunit *test)
{
	const struct bpshaper_must_row *row = test->param_value;
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_bench *b = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	qdisc_skb_cb(skb)->pkt_len = row->bytes;
	skb_shinfo(skb)->gso_size = row->gso_size;
	b->q->own.q = b->q;
	b->q->segment_above = row->above;
	KUNIT_EXPECT_EQ(test, bpshaper_skb_must_segment(skb, &b->q->own), row->must);
	kfree_skb(skb);
}

/* How many segments are too many? */
struct bpshaper_segs_row {
	const char	*name;
	u32		bytes;
	u16		gso_size;
	bool		too_many;
};

static const struct bpshaper_segs_row bpshaper_segs_rows[] = {
	{ "2048", 2048 * 8, 8, false },
	{ "2048 and a part", 2049 * 8 - 1, 8, false },
	{ "2049", 2049 * 8, 8, true },
	{ "a byte each", 65535, 1, true },
	{ "the fragments", 65535, GSO_BY_FRAGS, false },
};

BPSHAPER_ROWS(segs);

static void bpshaper_segs_test(struct kunit *test)
{
	const struct bpshaper_segs_row *row = test->param_value;
	struct sk_buff *skb = alloc_skb(row->bytes, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_put(skb, row->bytes);
	skb_shinfo(skb)->gso_size = row->gso_size;
	KUNIT_EXPECT_EQ(test, bpshaper_skb_has_too_many_segs(skb), row->too_many);
	kfree_skb(skb);
}

/* The length by a size table with cells of 16 bytes. The core's function, which
 * has to give the same, is not exported.
 */
struct bpshaper_stab_row {
	const char	*name;
	u32		bytes;
	s32		overhead;
	s32		cell_align;
	u32		size_log;
	u32		cells;
	u32		len;
};

static const struct bpshaper_stab_row bpshaper_stab_rows[] = {
	{ "no cells: as it is", 1000, 0, 0, 0, 0, 1000 },
	{ "no cells: and overhead", 1000, 38, 0, 0, 0, 1038 },
	{ "no cells: less than nothing is a byte", 10, -20, 0, 0, 0, 1 },
	{ "the end of the first cell", 15, 0, 0, 0, 4, 10 },
	{ "the second cell", 16, 0, 0, 0, 4, 20 },
	{ "overhead moves it to the second cell", 15, 1, 0, 0, 4, 20 },
	{ "alignment moves it to the first cell", 16, 0, -1, 0, 4, 10 },
	{ "alignment below the table", 0, 0, -1, 0, 4, 10 },
	{ "the last cell", 63, 0, 0, 0, 4, 40 },
	{ "beyond the end: the table and the first cell", 64, 0, 0, 0, 4, 50 },
	{ "twice the table: and the last cell", 127, 0, 0, 0, 4, 80 },
	{ "lengths in units of four", 16, 0, 0, 2, 4, 80 },
	{ "a MiB at most", 1000, S32_MAX, 0, 0, 0, 1 << 20 },
};

BPSHAPER_ROWS(stab);

static void bpshaper_stab_test(struct kunit *test)
{
	const struct bpshaper_stab_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct qdisc_size_table *stab;
	int i;

	stab = kunit_kzalloc(test, sizeof(*stab) + 4 * sizeof(u16), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, stab);
	stab->szopts.overhead = row->overhead;
	stab->szopts.cell_align = row->cell_align;
	stab->szopts.cell_log = 4;
	stab->szopts.size_log = row->size_log;
	stab->szopts.tsize = row->cells;
	for (i = 0; i < row->cells; i++)
		stab->data[i] = 10 * (1 + i);
	rcu_assign_pointer(b->sch->stab, stab);
	bpshaper_bench_lock(b);
	KUNIT_EXPECT_EQ(test, bpshaper_stab_len(b->sch, row->bytes), row->len);
	bpshaper_bench_unlock(b);
	RCU_INIT_POINTER(b->sch->stab, NULL);
}

static void bpshaper_no_stab_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;

	bpshaper_bench_lock(b);
	KUNIT_EXPECT_EQ(test, bpshaper_stab_len(b->sch, 1000), 1000);
	bpshaper_bench_unlock(b);
}

/* Segments and their socket */

#define BPSHAPER_TEST_SEG	1000

/* Like that of a packet socket's ring: it does more than sock_wfree(). */
static void bpshaper_segment_destructor(struct sk_buff *skb)
{
	sock_wfree(skb);
}

/* A packet of three segments. @more is charged for it beside its memory.
 * @is_owned: each segment has the socket in the end, and its own charge.
 */
struct bpshaper_seg_owner_row {
	const char	*name;
	bool		is_udp;
	bpshaper_destructor_t destructor;
	u32		more;
	bool		is_owned;
};

static const struct bpshaper_seg_owner_row bpshaper_seg_owner_rows[] = {
	{ "TCP packet of a packet socket", false, sock_wfree, 0, true },
	{ "TCP packet of a packet socket, charged with more", false, sock_wfree,
	  100000, true },
	{ "TCP packet with another destructor: to the pool", false,
	  bpshaper_segment_destructor, 0, false },
	{ "UDP packet", true, sock_wfree, 0, true },
	{ "UDP packet, charged with more", true, sock_wfree, 100000, true },
	{ "UDP packet with another destructor: to the pool", true,
	  bpshaper_segment_destructor, 0, false },
};

BPSHAPER_ROWS(seg_owner);

static const struct net_device_ops bpshaper_segment_ops;

/* With headers of Ethernet, IPv4, and TCP or UDP. */
static struct sk_buff *bpshaper_segment_packet(struct kunit *test, bool is_udp)
{
	u32 header = is_udp ? sizeof(struct udphdr) : sizeof(struct tcphdr);
	struct bpshaper_bench *b = test->priv;
	struct sk_buff *skb = alloc_skb(4096, GFP_KERNEL);
	struct iphdr *iph;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->dev = b->dev;
	skb->protocol = htons(ETH_P_IP);
	skb_reset_mac_header(skb);
	((struct ethhdr *)skb_put_zero(skb, ETH_HLEN))->h_proto = skb->protocol;
	skb_reset_mac_len(skb);
	skb->mac_len = ETH_HLEN;
	skb_set_network_header(skb, ETH_HLEN);
	iph = skb_put_zero(skb, sizeof(*iph));
	iph->version = 4;
	iph->ihl = 5;
	iph->protocol = is_udp ? IPPROTO_UDP : IPPROTO_TCP;
	iph->tot_len = htons(sizeof(*iph) + header + 3 * BPSHAPER_TEST_SEG);
	skb_set_transport_header(skb, skb->len);
	skb_put_zero(skb, header + 3 * BPSHAPER_TEST_SEG);
	if (is_udp)
		udp_hdr(skb)->len = htons(header + 3 * BPSHAPER_TEST_SEG);
	else
		tcp_hdr(skb)->doff = header / 4;
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = is_udp ? offsetof(struct udphdr, check) :
				    offsetof(struct tcphdr, check);
	skb_shinfo(skb)->gso_size = BPSHAPER_TEST_SEG;
	skb_shinfo(skb)->gso_segs = 3;
	skb_shinfo(skb)->gso_type = is_udp ? SKB_GSO_UDP_L4 : SKB_GSO_TCPV4;
	return skb;
}

static void bpshaper_seg_owner_test(struct kunit *test)
{
	const struct bpshaper_seg_owner_row *row = test->param_value;
	bpshaper_destructor_t destructor = sock_wfree;
	struct sk_buff *skb, *segs, *seg;
	struct bpshaper_bench *b = test->priv;
	u32 charge = 0, n = 0;

	b->dev->netdev_ops = &bpshaper_segment_ops;
	skb = bpshaper_segment_packet(test, row->is_udp);
	skb->truesize += row->more;
	skb_set_owner_w(skb, b->sk);
	skb->destructor = row->destructor;
	segs = bpshaper_segs_make(skb, &destructor);
	KUNIT_ASSERT_FALSE(test, IS_ERR(segs));
	KUNIT_EXPECT_EQ(test, destructor == sock_wfree, row->is_owned);
	for (seg = segs; seg; seg = seg->next) {
		KUNIT_EXPECT_EQ(test, seg->sk == b->sk, row->is_owned);
		KUNIT_EXPECT_EQ(test, seg->destructor == sock_wfree, row->is_owned);
		KUNIT_EXPECT_EQ(test, skb_transport_offset(seg) > 0, true);
		charge += seg->truesize;
		n++;
	}
	KUNIT_EXPECT_EQ(test, n, 3);
	if (row->is_owned)
		KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, charge), charge);
	kfree_skb(skb);
	if (row->is_owned)
		KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, charge), charge);
	else
		KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
	kfree_skb_list(segs);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
}

/* A packet without a socket stays without one, and one that would be too many
 * segments is refused.
 */
static void bpshaper_no_owner_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	bpshaper_destructor_t destructor = NULL;
	struct sk_buff *skb, *segs;

	b->dev->netdev_ops = &bpshaper_segment_ops;
	skb = bpshaper_segment_packet(test, false);
	segs = bpshaper_segs_make(skb, &destructor);
	KUNIT_ASSERT_FALSE(test, IS_ERR(segs));
	KUNIT_EXPECT_NULL(test, segs->sk);
	KUNIT_EXPECT_TRUE(test, !destructor);
	kfree_skb_list(segs);
	skb_shinfo(skb)->gso_size = 1;
	KUNIT_EXPECT_EQ(test, PTR_ERR(bpshaper_segs_make(skb, &destructor)), -E2BIG);
	kfree_skb(skb);
}

static struct kunit_case bpshaper_segment_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_must_test, bpshaper_must_gen_params),
	KUNIT_CASE_PARAM(bpshaper_segs_test, bpshaper_segs_gen_params),
	KUNIT_CASE(bpshaper_no_stab_test),
	KUNIT_CASE_PARAM(bpshaper_stab_test, bpshaper_stab_gen_params),
	KUNIT_CASE_PARAM(bpshaper_seg_owner_test, bpshaper_seg_owner_gen_params),
	KUNIT_CASE(bpshaper_no_owner_test),
	{}
};

BPSHAPER_SUITE(segment, bpshaper_bench_init, bpshaper_bench_exit);
