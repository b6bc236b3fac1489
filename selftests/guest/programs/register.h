/* SPDX-License-Identifier: GPL-2.0-only */
/* gcc writes a constant to a field of a packet by an instruction (BPF_ST) that kernels before 6.4
 * refuse there. clang does not, unless it is told to compile for -mcpu=v4.
 */
#ifndef REGISTER_H
#define REGISTER_H

static inline unsigned int in_register(unsigned int value)
{
	asm ("" : "+r" (value));
	return value;
}

#endif /* REGISTER_H */
