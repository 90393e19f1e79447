// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Reads with which message the kernel, or a driver, refused to attach an XDP program.
 * xdpcap_refused records the message to a thread of ours: the bpf system call returns only a
 * number, and the tracepoint exists since Linux 6.6. xdpcap_others reports the threads of other
 * processes that were refused because a program is attached already.
 * Owner: the Go package internal/attach.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "include/traced.h"

#define WORDS_SIZE 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, char[WORDS_SIZE]);
} words SEC(".maps");

/*
 * The thread whose attachments count for xdpcap_refused, and the process whose attachments do not
 * for xdpcap_others, in their own terms: an id, and the inode of its PID namespace.
 */
volatile const __u64 namespace_device = 0;
volatile const __u64 namespace_inode = 0;
volatile const __u32 thread = 0;
volatile const __u32 process = 0;

SEC("raw_tp/bpf_xdp_link_attach_failed")
int xdpcap_refused(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpf_pidns_info self;
	__u32 zero = 0;
	char *note = bpf_map_lookup_elem(&words, &zero);

	if (!note ||
	    bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &self, sizeof(self)) ||
	    self.pid != thread)
		return 0;
	bpf_probe_read_kernel_str(note, WORDS_SIZE, (void *)ctx->args[0]);
	return 0;
}

/* A thread that was refused. */
struct refusal {
	__u32 ifindex; /* 0: unknown */
	__u8 thread[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
	__type(value, struct refusal);
} others SEC(".maps");

/* What a thread tries at an interface. It may be left over, until the thread tries again. */
struct attempt {
	__u32 ifindex;
	__u32 detaches; /* not 0: it does not attach, but detach */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct attempt);
} attempts SEC(".maps");

static __always_inline int note_attempt(__u32 ifindex, __u32 detaches)
{
	struct attempt a = { .ifindex = ifindex, .detaches = detaches };
	__u64 caller = bpf_get_current_pid_tgid();

	bpf_map_update_elem(&attempts, &caller, &a, BPF_ANY);
	return 0;
}

SEC("fentry/bpf_xdp_link_attach")
int BPF_PROG(xdpcap_by_link, const union bpf_attr *attr)
{
	__u32 ifindex = 0;

	bpf_probe_read_kernel(&ifindex, sizeof(ifindex), &attr->link_create.target_ifindex);
	return note_attempt(ifindex, 0);
}

SEC("fentry/dev_change_xdp_fd")
int BPF_PROG(xdpcap_by_fd, const struct net_device *dev, const void *extack, int fd)
{
	return note_attempt(dev->ifindex, fd < 0);
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct nsproxy {
	struct net *net_ns;
};
struct task_struct {
	struct nsproxy *nsproxy;
};
#pragma clang attribute pop

/* The messages of dev_xdp_attach about a program that is in the way. */
static const char same_mode[] = "Can't replace active BPF XDP link";
static const char other_mode[] = "Native and generic XDP can't be active at the same time";
static const char above[] = "Cannot attach when an upper device already has a program";

/*
 * The kernel passes every message of netlink here, also those that nobody asked for: bpf_link asks
 * for none before Linux 6.6. This is the thread that the message is for.
 */
SEC("raw_tp/netlink_extack")
int xdpcap_others(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 caller = bpf_get_current_pid_tgid();
	char message[64] = {};
	struct bpf_pidns_info self;
	struct attempt *a;
	struct refusal *r;

	bpf_probe_read_kernel_str(message, sizeof(message), (void *)ctx->args[0]);
	if (bpf_strncmp(message, sizeof(same_mode), same_mode) &&
	    bpf_strncmp(message, sizeof(other_mode), other_mode) &&
	    bpf_strncmp(message, sizeof(above), above))
		return 0;
	if (BPF_CORE_READ(task, nsproxy, net_ns, ns.inum) != traced_netns)
		return 0;
	if (!bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &self, sizeof(self)) &&
	    self.tgid == process)
		return 0;
	a = bpf_map_lookup_elem(&attempts, &caller);
	if (a && a->detaches)
		return 0;
	r = bpf_ringbuf_reserve(&others, sizeof(*r), 0);
	if (!r)
		return 0;
	r->ifindex = a ? a->ifindex : 0;
	bpf_get_current_comm(r->thread, sizeof(r->thread));
	bpf_ringbuf_submit(r, 0);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
