/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The bytes of a packet that the stack throws away, as the frame that it was. Everything here needs
 * a struct lost with its skb and frame set.
 */
#ifndef FRAME_H
#define FRAME_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "filter.h"
#include "lost.h"

/*
 * Room for a frame's beginning. The order matters, because the verifier wants room after each array
 * for the copies that it thinks are possible.
 */
struct frame {
	struct head head;
	struct ethhdr made;
	__u8 room[2];
};

static __always_inline bool has_tag(const struct sk_buff *skb)
{
	const struct sk_buff___flagged *flagged = (const void *)skb;

	if (bpf_core_field_exists(flagged->vlan_present))
		return BPF_CORE_READ_BITFIELD_PROBED(flagged, vlan_present);
	return skb->vlan_proto || skb->vlan_tci;
}

#define ARPHRD_ETHER	1
#define ARPHRD_LOOPBACK 772

/* is_ethernet is also true if the device is unknown: most have Ethernet headers. */
static __always_inline bool is_ethernet(const struct net_device *dev)
{
	if (!dev)
		return true;
	__u16 type = BPF_CORE_READ((const struct net_device___type *)dev, type);

	return type == ARPHRD_ETHER || type == ARPHRD_LOOPBACK;
}

/*
 * find_frame finds the Ethernet header. The stack leaves mac_header where a packet came in, and
 * sets it when a packet goes to a queue of a device; a packet that this host made has none until
 * then. Where it is not at least a header's length before skb->data, or at skb->data and that
 * before the network header, it is of another device, or of a tunnel. What a bridge floods has
 * forgotten it, but not that the network header comes a header's length after skb->data.
 */
static __always_inline void find_frame(struct lost *p, bool is_ethernet)
{
	const struct sk_buff *skb = p->skb;
	/*
	 * Read with a helper, because the verifier refuses to subtract pointers of the kernel, and
	 * the result is a number to it.
	 */
	__u64 data = (__u64)BPF_CORE_READ(skb, data);
	__u64 head = (__u64)BPF_CORE_READ(skb, head);
	bool is_known = skb->mac_header != NO_HEADER;
	__u64 mac = is_known ? head + skb->mac_header : data;
	__u64 before = data - mac;
	bool is_whole = before ? before >= ETH_HLEN : head + skb->network_header >= mac + ETH_HLEN;

	p->is_tagged = has_tag(skb);
	p->linear = skb->len - skb->data_len;
	if (is_ethernet && before <= HEAD_BYTES && is_whole) {
		p->from = (void *)mac;
		p->before = before;
		p->linear += before;
		return;
	}
	__builtin_memset(&p->frame->made, 0, sizeof(p->frame->made));
	p->frame->made.h_proto = skb->protocol;
	p->from = (void *)data;
	p->before = p->made = ETH_HLEN;
}

/*
 * find_frame_at_tc is find_frame for a program at tc: its packets begin with their Ethernet header,
 * at ingress too.
 */
static __always_inline void find_frame_at_tc(struct lost *p)
{
	const struct sk_buff *skb = p->skb;

	p->is_tagged = has_tag(skb);
	p->linear = skb->len - skb->data_len;
	p->from = BPF_CORE_READ(skb, data);
}

/* whole_length is without a tag that is kept beside the packet. */
static __always_inline __u32 whole_length(const struct lost *p)
{
	return p->skb->len + p->before;
}

/*
 * copy_lost copies the first bytes of the frame, at least one and at most mask + 1, of those that
 * are in one piece. There is room for mask + 1 bytes after the header that is made.
 */
static __always_inline bool copy_lost(const struct lost *p, void *to, __u64 length,
				      const __u64 mask)
{
	if (p->made) {
		__u64 first = length < ETH_HLEN ? length : ETH_HLEN;

		if (!copy_piece(to, &p->frame->made, first, 15))
			return false;
		if (length <= ETH_HLEN)
			return true;
		to += ETH_HLEN;
		length -= ETH_HLEN;
	}
	return copy_piece(to, p->from, length, mask);
}

/* copy_lost_head copies the frame's beginning, at most `most` bytes, and puts its tag back. */
static __always_inline void copy_lost_head(struct lost *p, __u32 most)
{
	struct head *head = &p->frame->head;
	__u64 n = p->made + p->linear;

	p->head = head->bytes;
	if (n > most)
		n = most;
	if (!n || !copy_lost(p, head->bytes + (p->is_tagged ? TAG_BYTES : 0), n, HEAD_BYTES - 1))
		return;
	if (p->is_tagged) {
		put_tag_back(head, p->skb->vlan_proto, p->skb->vlan_tci);
		n += TAG_BYTES;
	}
	p->head_length = n > most ? most : n;
}

#endif
