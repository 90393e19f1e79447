/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a network card knows about a packet, read from the driver with the kernel's XDP metadata
 * functions. Only a program that is bound to the device may call them. The verifier counts even
 * calls in dead code, so other programs must not contain them at all.
 */
#ifndef CARD_H
#define CARD_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "record.h"

/* The kernel's type has names for these bits. */
enum xdp_rss_hash_type {
	XDP_RSS_TYPE_NONE = 0,
};

/* The first two are of Linux 6.3, the last one of 6.8. Each returns 0 or an error. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *ns) __ksym __weak;
extern int bpf_xdp_metadata_rx_hash(const struct xdp_md *ctx, __u32 *hash,
				    enum xdp_rss_hash_type *type) __ksym __weak;
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *protocol,
					__u16 *tag) __ksym __weak;

/* What to ask the card for; capture sets the functions that the driver has. */
volatile const bool asking_time = false;
volatile const bool asking_hash = false;
volatile const bool asking_tag = false;

/* ask_tag asks for the VLAN tag that the card has removed from the packet. */
static __always_inline void ask_tag(struct xdp_md *ctx, struct facts *facts)
{
	__be16 protocol;
	__u16 tag;

	if (!asking_tag || bpf_xdp_metadata_rx_vlan_tag(ctx, &protocol, &tag))
		return;
	facts->tag_protocol = protocol;
	facts->tag = tag;
}

/* ask_rest asks for the values that only kept packets need. */
static __always_inline void ask_rest(struct xdp_md *ctx, struct facts *facts)
{
	__u64 ns;
	__u32 hash;
	enum xdp_rss_hash_type type;

	if (asking_time && !bpf_xdp_metadata_rx_timestamp(ctx, &ns))
		facts->card_time = ns;
	if (asking_hash && !bpf_xdp_metadata_rx_hash(ctx, &hash, &type)) {
		facts->hash = hash;
		facts->hash_kind = type;
	}
}

#endif
