/* SPDX-License-Identifier: GPL-2.0-only */
/* Trees by time, or by something else that grows.
 *
 * It wraps: the later one is less than half of the range ahead.
 */
#ifndef _BPSHAPER_TAG_H
#define _BPSHAPER_TAG_H

/**
 * struct bpshaper_tag - a place in a tree
 * @node: in the tree
 * @at: what the tree is ordered by
 */
struct bpshaper_tag {
	struct rb_node	node;
	u64		at;
};

static inline bool bpshaper_tag_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* The first of the tree; NULL if there is none. */
static inline struct bpshaper_tag *
bpshaper_tag_first(const struct rb_root_cached *tree)
{
	struct rb_node *first = rb_first_cached(tree);

	return first ? rb_entry(first, struct bpshaper_tag, node) : NULL;
}

/* Where the tag belongs in the tree; return whether it is the first. */
static bool bpshaper_tag_place(struct rb_root_cached *tree,
			       struct bpshaper_tag *tag)
{
	struct rb_node **p = &tree->rb_root.rb_node, *parent = NULL;
	bool is_first = true;

	while (*p) {
		parent = *p;
		if (bpshaper_tag_before(tag->at,
					rb_entry(parent, struct bpshaper_tag,
						 node)->at)) {
			p = &parent->rb_left;
		} else {
			p = &parent->rb_right;
			is_first = false;
		}
	}
	rb_link_node(&tag->node, parent, p);
	return is_first;
}

/* Put the tag into the tree, behind those that are equal; return whether it is
 * the first.
 */
static bool bpshaper_tag_link(struct rb_root_cached *tree,
			      struct bpshaper_tag *tag)
{
	bool is_first = bpshaper_tag_place(tree, tag);

	rb_insert_color_cached(&tag->node, tree, is_first);
	return is_first;
}

#endif /* _BPSHAPER_TAG_H */
