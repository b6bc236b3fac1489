// SPDX-License-Identifier: GPL-2.0-only
/* bpshaper_kunit: the qdisc with its unit tests
 *
 * The tables are the specification: a row is a state, an event, and what must be
 * true afterwards. Where a row says what the code comments say in words, the
 * row is right.
 *
 * The module registers the qdisc as sch_bpshaper does, so only one of the two can
 * be loaded. The tests run when it is; results are in the kernel log and in
 * /sys/kernel/debug/kunit.
 */
#include "../../sch_bpshaper.c"

#include <kunit/test.h>
#include <linux/cred.h>
#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/net.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>

/* The rows of a table, bpshaper_NAME_rows[], are the parameters of a case. */
#define BPSHAPER_ROWS(table)						\
static void bpshaper_##table##_desc(const struct bpshaper_##table##_row *row, \
				    char *desc)				\
{									\
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);		\
}									\
KUNIT_ARRAY_PARAM(bpshaper_##table, bpshaper_##table##_rows,		\
		  bpshaper_##table##_desc)

#define BPSHAPER_SUITE(suite, start, end)				\
static struct kunit_suite bpshaper_##suite##_suite = {			\
	.name		= "bpshaper_" #suite,				\
	.init		= start,					\
	.exit		= end,						\
	.test_cases	= bpshaper_##suite##_cases,			\
}

#include "kunit_rate.h"
#include "kunit_marks.h"
#include "kunit_config.h"
#include "kunit_pacing.h"
#include "kunit_flow.h"
#include "kunit_order.h"
#include "kunit_table.h"
#include "kunit_queue.h"
#include "kunit_memory.h"
#include "kunit_turns.h"
#include "kunit_bench.h"
#include "kunit_hub.h"
#include "kunit_backpressure.h"
#include "kunit_classify.h"
#include "kunit_throttle.h"
#include "kunit_evict.h"
#include "kunit_segment.h"
#include "kunit_stats.h"
#include "kunit_apply.h"
#include "kunit_queues.h"

kunit_test_suites(&bpshaper_rate_suite, &bpshaper_memory_suite,
		  &bpshaper_flow_suite, &bpshaper_order_suite,
		  &bpshaper_table_suite, &bpshaper_queue_suite,
		  &bpshaper_backpressure_suite, &bpshaper_classify_suite,
		  &bpshaper_throttle_suite, &bpshaper_stats_suite,
		  &bpshaper_config_suite, &bpshaper_pacing_suite,
		  &bpshaper_hub_suite, &bpshaper_evict_suite,
		  &bpshaper_segment_suite, &bpshaper_apply_suite,
		  &bpshaper_turns_suite, &bpshaper_marks_suite,
		  &bpshaper_queues_suite);
