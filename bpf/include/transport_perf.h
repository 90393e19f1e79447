/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sends records to user space through perf rings, one for each CPU. Everything that depends on perf
 * is in this file.
 */
#ifndef TRANSPORT_PERF_H
#define TRANSPORT_PERF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/*
 * A perf record counts its size in 16 bits, in steps of 8 bytes; perf's header takes 8 and the
 * size of the data 4. The kernel reports success for a longer record, but drops it.
 */
#define PERF_MAX_RECORD ((0xffff & ~7) - 12)

/* The ring of each CPU; capture opens the rings and inserts them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} samples SEC(".maps");

/*
 * send_by_perf sends `size` bytes of a record, followed by the first packet_bytes bytes of the
 * packet, which must not be shorter. It returns 0, or an error if the record was lost. Both parts
 * together have at most PERF_MAX_RECORD bytes; the kernel adds up to seven bytes of padding.
 */
static __always_inline long send_by_perf(void *ctx, bool is_traced, void *record, __u64 size,
					 __u64 packet_bytes)
{
	__u64 flags = BPF_F_CURRENT_CPU | packet_bytes << 32;

	if (is_traced)
		return bpf_xdp_output(ctx, &samples, flags, record, size);
	return bpf_perf_event_output(ctx, &samples, flags, record, size);
}

#endif
