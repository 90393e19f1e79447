package testnet

import "os"

// Emulated says whether this is one of the kernels that `make test-kernels` boots. They run on an
// emulated machine, which is 10 to 30 times slower than a real one, and whose two processors take
// turns of up to 100 ms. Its init sets the variable.
//
// Tests that measure time allow more of it there. All tests send at Rate and as many packets as
// Volume: at higher rates the queue of the receiver may be full, which [Pair.Stats] counts.
func Emulated() bool { return os.Getenv("XDPCAP_EMULATED") != "" }

// SkipEmulated skips a test of what is the same on every kernel: signals, text, flags. An emulated
// machine needs many times as long for it.
func SkipEmulated(tb TB) {
	tb.Helper()
	if Emulated() {
		tb.Skipf("is the same on every kernel")
	}
}

// LeaveTo leaves a test to one of the two kernels that `make test-kernels` always boots, 6.1 or
// 6.12, and to other machines. It is for a test that is the same on both, but not skipped: it needs
// what other machines may lack, such as fentry, or is about a layer that is close to the kernel.
func LeaveTo(tb TB, kernel string) {
	tb.Helper()
	if here := os.Getenv("XDPCAP_EMULATED"); (here == "6.1" || here == "6.12") && here != kernel {
		tb.Skipf("is left to Linux %s", kernel)
	}
}

// Shared tells whether to run case i of a table of cases that are the same on every kernel, and
// take seconds on an emulated machine: the two kernels that `make test-kernels` always boots share
// them, and other machines run them all.
func Shared(i int) bool {
	switch os.Getenv("XDPCAP_EMULATED") {
	case "6.1":
		return i%2 == 0
	case "6.12":
		return i%2 == 1
	}
	return true
}

// Rate returns the packets per second to send where a test wants this many. On an emulated machine
// these are fewer, so that the queue of the receiver, 256 packets, has room for what arrives before
// its processor gets its turn.
func Rate(rate float64) float64 {
	if Emulated() {
		return min(rate, 2000)
	}
	return rate
}

// Volume returns how many packets to send where a test wants this many: on an emulated machine a
// tenth.
func Volume(packets uint64) uint64 {
	if Emulated() {
		return packets / 10
	}
	return packets
}
