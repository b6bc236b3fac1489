/* SPDX-License-Identifier: GPL-2.0-only */
/* The few words of the kernel that bpshaper/rate.h uses, for the host. */
#ifndef _UNIT_KERNEL_H
#define _UNIT_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <stddef.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define U32_MAX		UINT32_MAX
#define U64_MAX		UINT64_MAX
#define S64_MAX		INT64_MAX
#define NSEC_PER_MSEC	1000000L
#define NSEC_PER_SEC	1000000000L
#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#define __ffs(x)	((unsigned int)__builtin_ctzl(x))

#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define min3(a, b, c)		min(min(a, b), c)
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))

typedef struct {
	s64 counter;
} atomic64_t;

static inline s64 atomic64_read(const atomic64_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static inline bool atomic64_try_cmpxchg(atomic64_t *v, s64 *old, s64 new)
{
	return __atomic_compare_exchange_n(&v->counter, old, new, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}

static inline u64 div64_u64(u64 a, u64 b)
{
	return a / b;
}

static inline u64 div64_u64_rem(u64 a, u64 b, u64 *rest)
{
	*rest = a % b;
	return a / b;
}

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/* Trees, which nobody balances */

struct rb_node {
	struct rb_node *rb_parent, *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

#define RB_ROOT_CACHED	((struct rb_root_cached){ { NULL } })
#define RB_EMPTY_ROOT(root)	(!(root)->rb_node)
#define rb_entry(ptr, type, member)	container_of(ptr, type, member)

static inline struct rb_node *rb_first_cached(const struct rb_root_cached *root)
{
	struct rb_node *n = root->rb_root.rb_node;

	while (n && n->rb_left)
		n = n->rb_left;
	return n;
}

static inline void rb_link_node(struct rb_node *n, struct rb_node *parent,
				struct rb_node **link)
{
	*n = (struct rb_node){ .rb_parent = parent };
	*link = n;
}

static inline void rb_insert_color_cached(struct rb_node *n,
					  struct rb_root_cached *root,
					  bool is_first)
{
	(void)n, (void)root, (void)is_first;
}

static inline void rb_replace(struct rb_root_cached *root, struct rb_node *old,
			      struct rb_node *new)
{
	if (new)
		new->rb_parent = old->rb_parent;
	if (!old->rb_parent)
		root->rb_root.rb_node = new;
	else if (old->rb_parent->rb_left == old)
		old->rb_parent->rb_left = new;
	else
		old->rb_parent->rb_right = new;
}

static inline void rb_erase_cached(struct rb_node *n,
				   struct rb_root_cached *root)
{
	struct rb_node *next = n->rb_right;

	if (!n->rb_left || !n->rb_right) {
		rb_replace(root, n, n->rb_left ? n->rb_left : n->rb_right);
		return;
	}
	while (next->rb_left)
		next = next->rb_left;
	rb_erase_cached(next, root);
	*next = *n;
	rb_replace(root, n, next);
	if (next->rb_left)
		next->rb_left->rb_parent = next;
	if (next->rb_right)
		next->rb_right->rb_parent = next;
}

/* Augmented: what is above a change is computed again. */

#define rb_parent(node)	((node)->rb_parent)

struct rb_augment_callbacks {
	void (*propagate)(struct rb_node *node, struct rb_node *stop);
};

#define RB_DECLARE_CALLBACKS(scope, name, type, field, augmented, compute) \
static inline void name##_propagate(struct rb_node *n, struct rb_node *stop) \
{ \
	for (; n != stop; n = n->rb_parent) \
		compute(rb_entry(n, type, field), false); \
} \
scope const struct rb_augment_callbacks name = { name##_propagate }

static inline void
rb_insert_augmented_cached(struct rb_node *n, struct rb_root_cached *root,
			   bool is_first,
			   const struct rb_augment_callbacks *callbacks)
{
	(void)n, (void)root, (void)is_first, (void)callbacks;
}

static inline void
rb_erase_augmented_cached(struct rb_node *n, struct rb_root_cached *root,
			  const struct rb_augment_callbacks *callbacks)
{
	struct rb_node *lowest = n->rb_parent;

	if (n->rb_left && n->rb_right) {
		for (lowest = n->rb_right; lowest->rb_left; )
			lowest = lowest->rb_left;
		if (lowest->rb_parent != n)
			lowest = lowest->rb_parent;
	}
	rb_erase_cached(n, root);
	callbacks->propagate(lowest, NULL);
}

#endif /* _UNIT_KERNEL_H */
