package main

// An architecture is one that xdpcap is shipped for, and how qemu emulates a machine of it.
type architecture struct {
	name      string   // as Go and Debian have it
	triple    string   // of the directories of libraries
	emulator  string   // qemu's program
	processor []string // how it is emulated
	console   string   // as the kernel names it
	report    []string // the port of the report, which goes to stdout
	device    string   // this port in the guest
}

// max has the features that fentry needs and qemu's default processor lacks. Without erms and fsrm
// the kernel clears and copies memory eight bytes at a time. With them it would use instructions
// for single bytes, which are fast in hardware, but qemu emulates every byte by itself. Without
// la57 page tables have four levels instead of five, which qemu walks for each address that it does
// not have cached.
//
// One thread emulates both processors in turns. With a thread each, 6.12 once panicked in
// bpf_dispatcher_xdp_func while both processors ran BPF_PROG_RUN, which patches that code: probably
// one ran into what the other was patching.
var amd64 = &architecture{
	name: "amd64", triple: "x86_64-linux-gnu", emulator: "qemu-system-x86_64",
	processor: []string{"-accel", "tcg,thread=single", "-cpu", "max,-erms,-fsrm,-la57"},
	console:   "ttyS0",
	report:    []string{"-serial", "stdio"}, device: "/dev/ttyS1",
}

// pauth-impdef signs pointers by a cipher that is cheap to emulate, and without sve and sme the
// kernel has no long registers to save. A thread for each processor, so that one reads a ring while
// the other writes into it. On x86 processors that shows only some of the orders in which an arm64
// may see another one's stores, because qemu's own stores stay in order.
//
// The machine has only one serial port, so the report goes by virtio. With max_ports=1 guest and
// qemu do not negotiate over ports, so this one is there before init starts.
var arm64 = &architecture{
	name: "arm64", triple: "aarch64-linux-gnu", emulator: "qemu-system-aarch64",
	processor: []string{"-machine", "virt", "-accel", "tcg,thread=multi", "-cpu", "max,pauth-impdef=on,sve=off,sme=off"},
	console:   "ttyAMA0",
	report: []string{"-chardev", "stdio,id=report", "-device", "virtio-serial-pci,max_ports=1",
		"-device", "virtconsole,chardev=report"}, device: "/dev/hvc0",
}
