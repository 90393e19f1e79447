package testnet

import "os"

// Emulated reports whether this is one of the kernels that `make test-kernels` boots. They run on
// an emulated machine, which is 10 to 30 times slower than a real one, and whose two processors
// take turns of up to 100 ms. The machine's init sets the variable.
//
// Tests that measure time allow more of it there. All tests send at the rate that Rate returns and
// as many packets as Volume returns: at higher rates the queue of the receiver may be full, which
// [Pair.Stats] counts.
func Emulated() bool { return os.Getenv("XDPCAP_EMULATED") != "" }

// Shared reports whether to run case i of a table of cases that give the same result on every
// kernel and take seconds on an emulated machine. The two kernels that `make test-kernels` always
// boots share the cases; other machines run all.
func Shared(i int) bool {
	switch os.Getenv("XDPCAP_EMULATED") {
	case "6.1":
		return i%2 == 0
	case "6.12":
		return i%2 == 1
	}
	return true
}

// Rate returns the packets per second to send if a test wants this many. On an emulated machine
// they are fewer, so that the receiver's queue of 256 packets has room for the packets that arrive
// before its processor gets its turn.
func Rate(rate float64) float64 {
	if Emulated() {
		return min(rate, 2000)
	}
	return rate
}

// Volume returns how many packets to send if a test wants this many: a tenth on an emulated
// machine.
func Volume(packets uint64) uint64 {
	if Emulated() {
		return packets / 10
	}
	return packets
}
