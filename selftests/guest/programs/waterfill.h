/* SPDX-License-Identifier: GPL-2.0-only */
/* The law of classes: what each of them must get.
 *
 * What a class needs is the least of its ceil and of what its leaves need. Top down, a class first
 * gives each child its floor, as far as it needs it: floors that are strict, then those that
 * overcommit. If there is less than that, it is divided by floor. The rest goes to the children of
 * the smallest prio, by weight, up to what they need, and then to those of the next (max-min
 * fairness with weights, see Bertsekas and Gallager, "Data Networks", 6.5.2).
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
	int	overcommit;	/* the floor does */
	double	weight, floor, ceil;
	double	demand;		/* of a leaf */
	double	need, share;
	double	part, want;	/* in one step of the division */
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

static bool tenant_is_open(const struct tenant *t, int parent)
{
	return t->parent == parent && t->part && t->share < t->want - 1e-6;
}

/* Divide @x among the children of @parent by their parts, until each has what it wants. Returns
 * what is left.
 */
static double waterfill_parts(struct tenant *t, int count, int parent, double x)
{
	double parts, step;

	for (;;) {
		parts = 0;
		for (int i = 0; i < count; i++)
			if (tenant_is_open(&t[i], parent))
				parts += t[i].part;
		if (!parts || x < 1e-6)
			return x;
		step = x / parts;
		for (int i = 0; i < count; i++)
			if (tenant_is_open(&t[i], parent))
				step = tenant_least(step, (t[i].want - t[i].share) / t[i].part);
		for (int i = 0; i < count; i++)
			if (tenant_is_open(&t[i], parent)) {
				t[i].share += step * t[i].part;
				x -= step * t[i].part;
			}
	}
}

static void waterfill_divide(struct tenant *t, int count, int parent, double x)
{
	for (int overcommit = 0; overcommit < 2; overcommit++) {
		for (int i = 0; i < count; i++) {
			t[i].part = t[i].overcommit == overcommit ? t[i].floor : 0;
			t[i].want = tenant_least(t[i].floor, t[i].need);
		}
		x = waterfill_parts(t, count, parent, x);
	}
	for (int prio = 0; prio < TENANT_PRIOS; prio++) {
		for (int i = 0; i < count; i++) {
			t[i].part = t[i].prio == prio ? t[i].weight : 0;
			t[i].want = t[i].need;
		}
		x = waterfill_parts(t, count, parent, x);
	}
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
