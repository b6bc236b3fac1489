/* SPDX-License-Identifier: GPL-2.0-only */
/* Who holds most. A row is what four flows hold, one after the other, and who
 * is first then; 0 is nothing.
 */
struct bpshaper_rank_row {
	const char	*name;
	u64		amounts[4];
	u8		top;
	int		first;		/* -1: nobody */
};

static const struct bpshaper_rank_row bpshaper_rank_rows[] = {
	{ "nobody holds anything", { 0, 0, 0, 0 }, 0, -1 },
	{ "a byte", { 0, 1, 0, 0 }, BPSHAPER_RANK_MORE, 1 },
	{ "the largest", { 1, 1000, 4000, 1000 }, 6, 2 },
	{ "whoever came first, within a factor of four", { 3, 512, 2047, 600 }, 5, 1 },
	{ "256 GB and more", { 1ULL << 37, 1ULL << 38, U64_MAX, 1 }, 19, 0 },
};

BPSHAPER_ROWS(rank);

static void bpshaper_rank_test(struct kunit *test)
{
	const struct bpshaper_rank_row *row = test->param_value;
	struct list_head nodes[ARRAY_SIZE(row->amounts)];
	u8 levels[ARRAY_SIZE(row->amounts)] = {};
	struct bpshaper_rank *r;
	int i;

	r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, r);
	bpshaper_rank_init(r);
	for (i = 0; i < ARRAY_SIZE(nodes); i++)
		INIT_LIST_HEAD(&nodes[i]);
	/* Through other levels, which must be left empty. */
	for (i = 0; i < ARRAY_SIZE(nodes); i++)
		bpshaper_rank_move(r, &nodes[i], &levels[i], 1 + i);
	for (i = 0; i < ARRAY_SIZE(nodes); i++) {
		bpshaper_rank_move(r, &nodes[i], &levels[i], row->amounts[i] ?
				   bpshaper_rank_level(row->amounts[i]) : 0);
	}
	KUNIT_EXPECT_EQ(test, bpshaper_rank_top(r), row->top);
	if (row->first >= 0)
		KUNIT_EXPECT_PTR_EQ(test, bpshaper_rank_first(r), &nodes[row->first]);
	for (i = 0; i < ARRAY_SIZE(nodes); i++)
		bpshaper_rank_move(r, &nodes[i], &levels[i], 0);
	KUNIT_EXPECT_EQ(test, r->used, 0);
}

static struct kunit_case bpshaper_rank_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_rank_test, bpshaper_rank_gen_params),
	{}
};

BPSHAPER_SUITE(rank, NULL, NULL);
