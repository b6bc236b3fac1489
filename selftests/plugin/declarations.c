// SPDX-License-Identifier: GPL-2.0-only
/* Compare the declarations of tools/iproute2 with those of a release of iproute2.
 * The headers of the release come first in the path; a difference does not
 * compile.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "utils.h"
#include "tc_util.h"

#define BPSHAPER_PROTOTYPES_ONLY
#include "../../tools/iproute2/utils.h"
#include "../../tools/iproute2/tc_util.h"

#define IS_WORD(member, number)						\
	_Static_assert(offsetof(struct qdisc_util, member) ==		\
		       (number) * sizeof(void *), #member)

IS_WORD(next, 0);
IS_WORD(id, 1);
IS_WORD(parse_qopt, 2);
IS_WORD(print_qopt, 3);
IS_WORD(print_xstats, 4);
IS_WORD(parse_copt, 5);
IS_WORD(print_copt, 6);
_Static_assert(sizeof(struct qdisc_util) <= 13 * sizeof(void *), "room");
_Static_assert(PRINT_FP == 1 && PRINT_JSON == 2 && PRINT_ANY == 4, "types");
_Static_assert(COLOR_NONE == 6, "colours");
_Static_assert(SPRINT_BSIZE == 64, "buffers");
