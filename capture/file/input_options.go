package file

import (
	"io"

	"github.com/xdpcap/xdpcap/capture"
)

// An InputFile is a capture file to read: pcapng or pcap, also compressed with gzip or zstd. The
// format is detected from the content.
type InputFile struct {
	Name string // for errors, and for interfaces without a name
	In   io.Reader

	// Waits means that In may wait for more bytes, like a pipe or a connection. Its Read should
	// then return 0 bytes and no error a few times a second, so that outputs are flushed meanwhile.
	// The error context.Canceled ends the reading, as Stop does.
	Waits bool

	// Prefix comes before the names of a pcapng file's interfaces, such as the name of their host.
	Prefix string

	// Late, if not nil, is called after each Read of a file with Waits that has returned 0 bytes.
	// If it returns true, the Input goes on with the other files until this one has more bytes; its
	// packets are then out of order if others of a later time were returned meanwhile. nil = the
	// other files always wait.
	Late func() bool

	// Correct, if not nil, converts the times of the file, in ns since the Unix epoch, to those of
	// the input.
	Correct func(ns int64) int64
}

// InputOptions configure an Input. The zero value of each field is its default.
type InputOptions struct {
	// Match selects packets: if it returns false, the packet is FilteredOut; nil = all match. It is
	// called by the goroutine of Read.
	Match func(*capture.Source, *capture.Packet) bool
	Skip  uint64 // this many of the first matching packets are FilteredOut, too
	Count uint64 // end after this many packets; 0 = no limit

	// Section, if not nil, is called with the comments of each pcapng section when it begins. It is
	// called by the goroutine of Read.
	Section func(comments []string)

	// Memory is how many bytes of memory are available; 0 = NewInput reads it from the kernel. A
	// process sets it if its sandbox will block that. Decompression takes at most a quarter of it,
	// and at most 1 GiB.
	Memory uint64

	// Notice, if not nil, is called with problems that do not end the reading, like
	// capture.Options.Notice.
	Notice func(error)
}
