// Package kernel has the output of bpf2go for bpf/sampler.c: the compiled programs, and the names,
// types and limits that C and Go share.
package kernel

//go:generate go tool bpf2go -target bpfel -type ring -type account -type passage -type gate -type class -type flow -type head_limit -type lost_limit -type wait_limit -type verdict_kind Sampler ../../../bpf/sampler.c
