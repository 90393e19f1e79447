package main

// An architecture has the settings by which qemu emulates a machine of that architecture.
type architecture struct {
	name      string   // GOARCH, and Debian's name
	triple    string   // the name of the directories of libraries
	emulator  string   // qemu's program
	processor []string // qemu's arguments for the processor
	console   string   // the kernel's name of the port of the console
	report    []string // qemu's arguments for the port of the report, which it copies to stdout
	device    string   // the guest's path of that port
}

// max has the features that fentry needs and qemu's default processor lacks. Without erms and fsrm
// the kernel clears and copies memory eight bytes at a time. With them it would use instructions
// for single bytes, which are fast in hardware, but qemu emulates each byte separately. Without
// la57 page tables have four levels instead of five, which qemu walks for each address that it has
// not cached.
//
// One thread emulates both processors in turns. With a thread each, 6.12 once panicked in
// bpf_dispatcher_xdp_func while both processors ran BPF_PROG_RUN, which patches that code: probably
// one processor executed the code while the other patched it.
var amd64 = &architecture{
	name: "amd64", triple: "x86_64-linux-gnu", emulator: "qemu-system-x86_64",
	processor: []string{"-accel", "tcg,thread=single", "-cpu", "max,-erms,-fsrm,-la57"},
	console:   "ttyS0",
	report:    []string{"-serial", "stdio"}, device: "/dev/ttyS1",
}

// pauth-impdef signs pointers by a cipher that is cheap to emulate, and without sve and sme the
// kernel has no long registers to save. Each processor has a thread, so that one reads a ring while
// the other writes into it. On an x86 host this tests only some of the orders in which an arm64
// processor may observe another one's stores, because the host's stores stay in order.
//
// The machine has only one serial port, so the report goes by virtio. With max_ports=1 guest and
// qemu do not negotiate over ports, so this one exists before init starts.
var arm64 = &architecture{
	name: "arm64", triple: "aarch64-linux-gnu", emulator: "qemu-system-aarch64",
	processor: []string{"-machine", "virt", "-accel", "tcg,thread=multi", "-cpu", "max,pauth-impdef=on,sve=off,sme=off"},
	console:   "ttyAMA0",
	report: []string{"-chardev", "stdio,id=report", "-device", "virtio-serial-pci,max_ports=1",
		"-device", "virtconsole,chardev=report"}, device: "/dev/hvc0",
}
