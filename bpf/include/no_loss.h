/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which of the packets that the kernel throws away are no losses of the stack. Package
 * internal/lost in Go has the list, and makes the constants of it.
 */
#ifndef NO_LOSS_H
#define NO_LOSS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "lost.h"

#define MAX_NO_LOSSES 80 /* entries of no_losses; lost.MaxNoLosses in Go */

/*
 * Packets that the kernel throws away for this reason within these addresses are no losses, or they
 * were lost at the XDP hook before; they do not count as seen.
 */
struct no_loss {
	__u64 from, to; /* `to` is the first address after them */
	__u32 reason;
	__u32 kind; /* only of this enum lost_kind; 0 = any, except TO_US */
};

volatile const struct no_loss no_losses[MAX_NO_LOSSES] = {};
volatile const __u32 no_loss_count = 0;

/* is_no_loss is not inlined, for the same reason as is_above. */
__noinline int is_no_loss(__u64 location, __u32 reason, __u32 kind)
{
	if (kind == TO_US)
		return false;
	for (int i = 0; i < MAX_NO_LOSSES; i++) {
		if (i >= (int)no_loss_count)
			break;
		if (no_losses[i].reason == reason && location >= no_losses[i].from &&
		    location < no_losses[i].to && (!no_losses[i].kind || no_losses[i].kind == kind))
			return true;
	}
	return false;
}

#endif
