package testnet

import "os"

// Emulated says whether this is one of the kernels that `make test-kernels`
// boots: on an emulated machine, 10 to 30 times slower than others, whose two
// processors take turns for up to 100 ms. Its init sets the variable.
//
// Tests whose subject is time allow more of it there; Rate and Volume are for
// all. What is sent faster may find the receiver's queue full there, which
// [Pair.Stats] tells.
func Emulated() bool { return os.Getenv("XDPCAP_EMULATED") != "" }

// Rate is the rate to send at where a test wants this one, in packets per
// second: on an emulated machine less, so that the receiver's queue, 256
// packets, holds what a processor has to catch up on when its turn comes.
func Rate(rate float64) float64 {
	if Emulated() {
		return min(rate, 2000)
	}
	return rate
}

// Volume is how many packets to send where a test wants so many: a tenth of
// them on an emulated machine.
func Volume(packets uint64) uint64 {
	if Emulated() {
		return packets / 10
	}
	return packets
}
