/* SPDX-License-Identifier: GPL-2.0-only */
/* The few words of the kernel that rate.h, tree.h and hub.h use, for the host.
 * Threads may be stopped at unit_pause(), if the file that includes this has
 * one: before each step that others see.
 */
#ifndef _UNIT_KERNEL_H
#define _UNIT_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define U8_MAX		UINT8_MAX
#define U32_MAX		UINT32_MAX
#define U64_MAX		UINT64_MAX
#define S64_MAX		INT64_MAX
#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define NSEC_PER_SEC	1000000000L
#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))

/* Each argument is read once: another thread may change it. */
#define min(a, b) \
	({ __auto_type _a = (a); __auto_type _b = (b); _a < _b ? _a : _b; })
#define max(a, b) \
	({ __auto_type _a = (a); __auto_type _b = (b); _a > _b ? _a : _b; })
#define min3(a, b, c)		min(min(a, b), c)
#define max3(a, b, c)		max(max(a, b), c)
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#undef abs
#define abs(x)			((x) < 0 ? -(x) : (x))
#define clamp_t(type, x, a, b)	min_t(type, max_t(type, x, a), b)

#ifndef unit_pause
#define unit_pause()		((void)0)
#endif

#define __acquires(x)
#define __releases(x)
#define likely(x)		(x)
#define unlikely(x)		(x)
#define lower_32_bits(x)	((u32)(x))
#define upper_32_bits(x)	((u32)((u64)(x) >> 32))
#define ____cacheline_aligned_in_smp
#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) \
	(unit_pause(), __atomic_store_n(&(x), v, __ATOMIC_RELAXED))
#define smp_mb() \
	(__atomic_thread_fence(__ATOMIC_SEQ_CST), unit_pause())
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) \
	(unit_pause(), __atomic_store_n(p, v, __ATOMIC_RELEASE))

typedef struct {
	s64 counter;
} atomic64_t;

#define atomic64_read(v)	READ_ONCE((v)->counter)
#define atomic64_set(v, x)	WRITE_ONCE((v)->counter, x)
#define atomic64_read_acquire(v) \
	__atomic_load_n(&(v)->counter, __ATOMIC_ACQUIRE)
#define atomic64_xchg(v, x) \
	(unit_pause(), __atomic_exchange_n(&(v)->counter, x, __ATOMIC_SEQ_CST))
#define atomic64_fetch_add_release(x, v) \
	(unit_pause(), __atomic_fetch_add(&(v)->counter, x, __ATOMIC_RELEASE))
#define atomic64_try_cmpxchg_release(v, old, new) \
	(unit_pause(), \
	 __atomic_compare_exchange_n(&(v)->counter, old, new, false, \
				     __ATOMIC_RELEASE, __ATOMIC_RELAXED))

/* Locks, for real threads; a test of one thread may set @is_held. */

typedef struct {
	bool is_held;
} raw_spinlock_t;

#define raw_spin_lock_init(lock)	((lock)->is_held = false)
#define raw_spin_trylock_irqsave(lock, flags) \
	((flags) = 0, !__atomic_test_and_set(&(lock)->is_held, __ATOMIC_ACQUIRE))
#define raw_spin_lock_irqsave(lock, flags) \
	do { } while (!raw_spin_trylock_irqsave(lock, flags))
#define raw_spin_unlock_irqrestore(lock, flags) \
	((void)(flags), unit_pause(), \
	 __atomic_clear(&(lock)->is_held, __ATOMIC_RELEASE))

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

/* Lists */

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *h)
{
	h->next = h;
	h->prev = h;
}

static inline bool list_empty(const struct list_head *h)
{
	return h->next == h;
}

static inline void list_add(struct list_head *n, struct list_head *h)
{
	*n = (struct list_head){ h->next, h };
	h->next->prev = n;
	h->next = n;
}

static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	list_add(n, h->prev);
}

static inline void list_del_init(struct list_head *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	INIT_LIST_HEAD(n);
}

static inline void list_move(struct list_head *n, struct list_head *h)
{
	list_del_init(n);
	list_add(n, h);
}

static inline void list_splice_tail(struct list_head *list, struct list_head *h)
{
	if (list_empty(list))
		return;
	list->next->prev = h->prev;
	h->prev->next = list->next;
	list->prev->next = h;
	h->prev = list->prev;
}

#define LIST_HEAD(name)	struct list_head name = { &(name), &(name) }
#define list_entry(ptr, type, member)	container_of(ptr, type, member)
#define list_first_entry(h, type, member) list_entry((h)->next, type, member)
#define list_next_entry(pos, member) \
	list_entry((pos)->member.next, __typeof__(*(pos)), member)
#define list_for_each_entry(pos, h, member) \
	for (pos = list_first_entry(h, __typeof__(*(pos)), member); \
	     &(pos)->member != (h); pos = list_next_entry(pos, member))
#define list_for_each_entry_safe(pos, n, h, member) \
	for (pos = list_first_entry(h, __typeof__(*(pos)), member), \
	     n = list_next_entry(pos, member); &(pos)->member != (h); \
	     pos = n, n = list_next_entry(n, member))

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

#define init_llist_head(h)	((h)->first = NULL)

#ifndef unit_llist_add
#define unit_llist_add(list)	((void)0)
#endif

static inline void llist_add(struct llist_node *n, struct llist_head *h)
{
	unit_llist_add(h);
	n->next = READ_ONCE(h->first);
	while (!__atomic_compare_exchange_n(&h->first, &n->next, n, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static inline bool llist_empty(const struct llist_head *h)
{
	return !READ_ONCE(h->first);
}

static inline struct llist_node *llist_del_all(struct llist_head *h)
{
	return __atomic_exchange_n(&h->first, NULL, __ATOMIC_ACQ_REL);
}

static inline struct llist_node *llist_reverse_order(struct llist_node *n)
{
	struct llist_node *before = NULL, *next;

	for (; n; n = next) {
		next = n->next;
		n->next = before;
		before = n;
	}
	return before;
}

#define llist_entry(ptr, type, member)	container_of(ptr, type, member)
#define llist_for_each_safe(pos, n, node) \
	for ((pos) = (node); (pos) && ((n) = (pos)->next, true); (pos) = (n))

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

#define rb_entry(ptr, type, member)	container_of(ptr, type, member)
#define rb_entry_safe(ptr, type, member) \
	({ \
		__typeof__(ptr) ptr_ = (ptr); \
		ptr_ ? rb_entry(ptr_, type, member) : NULL; \
	})

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

#endif /* _UNIT_KERNEL_H */
