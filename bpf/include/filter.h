/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The filter of a program: is_match tells whether it takes a packet. An XDP program's filter reads
 * the packet in place; those of tracers and at egress read a copy of its beginning.
 */
#ifndef FILTER_H
#define FILTER_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "packet.h"
#include "traced.h"

enum head_limit {
	TAG_BYTES = 4,	   /* of a VLAN tag */
	HEAD_BYTES = 4096, /* a page: more than the first buffer of a packet can have */
};
enum head_limit *const head_limit_type; /* keeps the type in BTF, for bpf2go */

/*
 * Room for the first bytes of a traced or sent packet, so that the filter can read them, and for a
 * VLAN tag that is inserted between them.
 */
struct head {
	__u8 bytes[HEAD_BYTES];
	__u8 room[TAG_BYTES];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct head);
} heads SEC(".maps");

/* The loader sets these. The verifier removes the filter where there is none. */
volatile const bool filtering = false;
/* Whether the filter reads a packet's length. */
volatile const bool filtering_length = false;
/* How many bytes of the packet filter_head may read. */
volatile const __u32 reach = HEAD_BYTES;

/*
 * The loader replaces these two functions, or their calls. A filter returns 0 if it loads a
 * byte that the packet does not have. The assembler statements keep the compiler from assuming the
 * result, and from removing the arguments.
 */
__noinline int filter(struct xdp_md *ctx, __u32 wire_len)
{
	int match = 1;

	asm volatile("" : "+r"(match) : "r"(ctx), "r"(wire_len));
	return match;
}

__noinline int filter_head(struct head *head, __u32 wire_len, __u32 length)
{
	int match = 1;

	asm volatile("" : "+r"(match) : "r"(head), "r"(wire_len), "r"(length));
	return match;
}

/*
 * copy_head copies the packet's first bytes, at most `reach`, and sets *length to their number. It
 * is 0 if the filter needs no bytes, if the first of several buffers is empty, and if the bytes
 * cannot be read: the filter may still need the packet's length.
 */
static __always_inline struct head *copy_head(struct xdp_buff *xdp, __u32 *length)
{
	__u32 zero = 0;
	struct head *head = bpf_map_lookup_elem(&heads, &zero);

	if (!head || !reach)
		return head;
	__u64 n = xdp->data_end - xdp->data, most = reach;

	if (n > most)
		n = most;
	if (!n)
		return head;
	*length = n;
	/*
	 * n is at most HEAD_BYTES. Linux 6.1's verifier knows that only if n is masked in the very
	 * register that goes into the call.
	 */
	asm volatile("" : "+r"(n));
	n = ((n - 1) & (HEAD_BYTES - 1)) + 1;
	if (bpf_probe_read_kernel(head->bytes, n, xdp->data))
		*length = 0;
	return head;
}

/* put_tag_back moves the MAC addresses to the beginning, and writes the tag after them. */
static __always_inline void put_tag_back(struct head *head, __be16 protocol, __u16 tag)
{
	__u32 *words = (__u32 *)head->bytes;
	__be16 *at = (__be16 *)&words[3];

	for (int i = 0; i < 3; i++)
		words[i] = words[i + 1];
	at[0] = protocol;
	at[1] = bpf_htons(tag);
}

/* copy_sent_head is copy_head at egress. A VLAN tag beside the packet is put back. */
static __always_inline struct head *copy_sent_head(struct __sk_buff *skb, __u32 *length)
{
	__u32 zero = 0;
	struct head *head = bpf_map_lookup_elem(&heads, &zero);

	if (!head || !reach)
		return head;
	bool is_tagged = skb->vlan_present;
	void *to = is_tagged ? head->bytes + TAG_BYTES : head->bytes;
	__u64 n = skb->len, most = reach;

	if (n > most)
		n = most;
	if (!n)
		return head;
	asm volatile("" : "+r"(n));
	n = ((n - 1) & (HEAD_BYTES - 1)) + 1;
	if (bpf_skb_load_bytes(skb, 0, to, n))
		return head;
	if (is_tagged) {
		put_tag_back(head, skb->vlan_proto, skb->vlan_tci);
		n += TAG_BYTES;
	}
	*length = n > most ? most : n;
	return head;
}

/* sent_length is the length of a packet at egress including its tag. */
static __always_inline __u32 sent_length(struct __sk_buff *skb)
{
	return skb->len + (skb->vlan_present ? TAG_BYTES : 0);
}

/* is_match calls the filter. It needs the packet's length only if filtering_length is set. */
static __always_inline bool is_match(void *ctx, enum context context, __u32 wire_len)
{
	__u32 length = 0;

	if (context == XDP_MD)
		return filter(ctx, wire_len);
	if (context == LOST) {
		const struct lost *lost = ctx;

		return filter_head((void *)lost->head, wire_len, lost->head_length);
	}
	struct head *head = context == SKB ? copy_sent_head(ctx, &length) : copy_head(ctx, &length);

	return head && filter_head(head, wire_len, length);
}

#endif
