package capture

import "github.com/xdpcap/xdpcap/internal/cli/frame"

// SentNote is about the capture of what is sent.
var SentNote = frame.Note{Title: "What is sent", Text: "-Q out and -Q inout see a packet before the kernel or the card cuts it into segments (GSO): it may " +
	"have 64 KiB, and -v prints the size of its segments. A checksum that the card will compute is not there yet, and no transmit queue " +
	"is chosen. What an XDP program sends does not pass there: capture it with --rx-capture exit --verdict tx,redirect."}
