/* SPDX-License-Identifier: GPL-2.0-only */
/* Simulated queues, each on a CPU of its own, that share a hub. */
#ifndef _UNIT_HUB_SIM_H
#define _UNIT_HUB_SIM_H

#include "unit.h"
#include "../guest/programs/waterfill.h"

#define SIM_CLASSES	1000
#define SIM_NEW		32
#define SIM_SLOTS	1700
#define SIM_MEMBERS	1000
#define SIM_TENANTS	(SIM_CLASSES + SIM_SLOTS)
#define MBIT		125000ULL	/* bytes per second */

/* What a case is about, in the period that is measured. */
struct sim_result {
	double	share;		/* of what the law gives to all */
	double	error;		/* of the class farthest from the law, of the rate */
	double	jain;		/* of greedy slots of a class, the least of all */
	double	wait_ms;	/* 99 % of packets of slots, or flows, below their part */
	double	atomics;	/* on shared words, per packet */
	double	locks;		/* per packet */
	double	wakes;		/* of members, per packet */
	double	timers;		/* of the hub, per packet */
	double	looks;		/* at slots that lack bytes, per packet */
	double	lock_busy;	/* part of the time */
	double	flow_least, flow_most;	/* of greedy flows, of the rate */
	bool	is_lawful;	/* in total and by all ceils */
};

/* How members are late, and are stopped. Times are in ns. */
struct sim_machine {
	u64	late_least, late_most;
	u64	late_long;	/* one timer of 500, one wake-up of 5000 */
	u64	wake_least, wake_most;
	bool	ipi;		/* who is woken runs on its own CPU */
	u64	wire_mbit;	/* of each queue; 0: as fast as its CPU */
	u64	stall_every, stall_most;	/* of any member */
	u64	hold_every, hold_ns;	/* the holder of the lock is stopped */
	u64	leave_every, leave_ns;	/* a member goes, and comes back */
};

extern struct sim_machine sim_machine;
extern u32 sim_mtu;		/* bytes of a packet of the MTU */

void sim_begin(u64 mbit, u32 burst);
/* Below class @parent, or the root if that is -1. Rates are in Mbit/s; a
 * @ceil of 0 is none.
 */
int sim_class(int parent, u32 weight, double floor, double ceil, int prio);
/* Its floor may exceed what is left of the parent's. */
void sim_class_overcommit(int class);
void sim_class_burst(int class, u32 burst);
int sim_member(void);
/* @demand in Mbit/s, Poisson; 0: it always has packets, of @len bytes. */
int sim_slot(int member, int class, double demand, u32 len);
/* It has @flows. */
void sim_slot_flows(int slot, u32 flows);
/* It has one packet, and the next one @us after that has left, on average. */
void sim_slot_gap(int slot, double us);
/* Its packets are of @least bytes and more. */
void sim_slot_lengths(int slot, u32 least);
/* It is greedy, and has a flow besides that sends @demand, one packet of @len
 * bytes at a time, before the others.
 */
void sim_slot_new_flow(int slot, double demand, u32 len);
/* The same, at equal distances. */
void sim_slot_paced_flow(int slot, double demand, u32 len);
/* Packets come two at once to the flow that was added last. */
void sim_slot_flow_pairs(int slot);
double sim_flow_share(int slot, int flow);
/* It has packets from and until, ms; or it comes and goes, ms on average. */
void sim_slot_period(int slot, double from, double until);
void sim_slot_on_off(int slot, double on, double off);
/* The member's timers are always late by @ns. */
void sim_member_late(int member, u64 ns);
struct sim_result sim_run(double ms, double measured_from_ms);
/* Bytes of a class, and of a slot, in the period that was measured. */
double sim_class_share(int class);
double sim_slot_share(int slot);
double sim_slot_on(int slot);
/* The longest time in which it has sent nothing, ms */
double sim_slot_gap_ms(int slot);
/* ms from @from_ms until all classes get what the law gives them, within 6 % of
 * the rate in 18 of 20 windows of 2 ms, half a ms apart
 */
double sim_settled(double from_ms);

#endif /* _UNIT_HUB_SIM_H */
