package capture

import "github.com/cilium/ebpf"

// A transport is how records come from the programs in the kernel to this process. Each kind is one
// file, transport_NAME.go, with a function of the type newTransport.
type transport interface {
	// rings makes a ring for every CPU that is online and has none, and hands it to the programs.
	// It is called when the session opens, and by the reader about once a second, because CPUs may
	// come online. The rings that it returns are the caller's to close, also where it returns an
	// error, which is that of one CPU: the next call goes on with the others.
	rings() ([]ring, error)
}

type newTransport func(maps map[string]*ebpf.Map, o *Options) transport

// A ring holds the records of one CPU, and is read by one goroutine. The kernel writes behind the
// last record; refill notices what it has written, and next goes along that record by record.
type ring interface {
	// refill notices what the kernel has written since the last call.
	refill()
	// next goes on to the next record and returns its bytes. They, and those of the record before,
	// must stay valid until release. A record whose bytes cannot be told is invalid.
	next() ([]byte, found)
	// release lets the kernel write where everything before the last record of next lies.
	release()
	// isFilling tells that the ring may be full before it wakes anybody.
	isFilling() bool
	// fd is readable when the ring asks to be read; -1 where it never does.
	fd() int
	close() error
}

// found is what a ring's next came upon.
type found int

const (
	nothing found = iota // there is no other record
	valid
	invalid
)
