/* SPDX-License-Identifier: GPL-2.0-only */
/* The law of classes: what each of them must get.
 *
 * What a class needs is the least of its ceil and of what its leaves need. Top down, a class first
 * gives each child its floor, as far as it needs it. The rest goes to the children of the smallest
 * prio, by weight, up to what they need, and then to those of the next (max-min fairness with
 * weights, see Bertsekas and Gallager, "Data Networks", 6.5.2).
 */
#ifndef WATERFILL_H
#define WATERFILL_H

#include <stdbool.h>

#define TENANTS_MAX	40
#define TENANT_PRIOS	8
#define UNBOUNDED	1e18

/* A class, and what the law says of it. Rates are in any one unit. A parent is before its children.
 */
struct tenant {
	int	parent;		/* index, or -1 */
	int	children;
	int	prio;
	double	weight, floor, ceil;
	double	demand;		/* of a leaf */
	double	need, share;
};

static double tenant_least(double a, double b)
{
	return a < b ? a : b;
}

static void waterfill_needs(struct tenant *t, int count)
{
	for (int i = 0; i < count; i++)
		t[i].need = t[i].children ? 0 : t[i].demand;
	for (int i = count - 1; i >= 0; i--) {
		t[i].need = tenant_least(t[i].need, t[i].ceil);
		if (t[i].parent >= 0)
			t[t[i].parent].need += t[i].need;
	}
}

static bool tenant_is_open(const struct tenant *t, int parent, int prio)
{
	return t->parent == parent && t->prio == prio && t->share < t->need - 1e-6;
}

/* Divide @x among the children of @parent of one prio. Returns what is left. */
static double waterfill_prio(struct tenant *t, int count, int parent, int prio, double x)
{
	double weight, step;

	for (;;) {
		weight = 0;
		for (int i = 0; i < count; i++)
			if (tenant_is_open(&t[i], parent, prio))
				weight += t[i].weight;
		if (!weight || x < 1e-6)
			return x;
		step = x / weight;
		for (int i = 0; i < count; i++)
			if (tenant_is_open(&t[i], parent, prio))
				step = tenant_least(step, (t[i].need - t[i].share) / t[i].weight);
		for (int i = 0; i < count; i++)
			if (tenant_is_open(&t[i], parent, prio)) {
				t[i].share += step * t[i].weight;
				x -= step * t[i].weight;
			}
	}
}

static void waterfill_divide(struct tenant *t, int count, int parent, double x)
{
	for (int i = 0; i < count; i++)
		if (t[i].parent == parent) {
			t[i].share = tenant_least(t[i].floor, t[i].need);
			x -= t[i].share;
		}
	for (int prio = 0; prio < TENANT_PRIOS; prio++)
		x = waterfill_prio(t, count, parent, prio, x);
}

/* Set what each gets of @link. */
static void waterfill(struct tenant *t, int count, double link)
{
	waterfill_needs(t, count);
	waterfill_divide(t, count, -1, link);
	for (int i = 0; i < count; i++)
		if (t[i].children)
			waterfill_divide(t, count, i, t[i].share);
}

#endif /* WATERFILL_H */
