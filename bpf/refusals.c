// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Records the message with which the kernel, or a driver, refused to attach an XDP program. The
 * bpf system call returns only a number; the message is in a tracepoint that Linux 6.6 has added.
 * Owner: the Go package internal/attach.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define WORDS_SIZE 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, char[WORDS_SIZE]);
} words SEC(".maps");

/*
 * The thread whose attachments count, in its own terms: its thread id, and the inode of its PID
 * namespace.
 */
volatile const __u64 namespace_device = 0;
volatile const __u64 namespace_inode = 0;
volatile const __u32 thread = 0;

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

char _license[] SEC("license") = "Dual BSD/GPL";
