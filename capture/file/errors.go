package file

import (
	"errors"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// The kinds of errors that a caller can react to, for errors.Is, beside those of package capture.
var (
	// ErrNameTaken means that the next file of a Rotation with NoOverwrite would have the name of
	// an existing file.
	ErrNameTaken = outfile.ErrNameTaken
	// ErrDiskLow means that a disk has less free than Rotation.MinFree. Where it ends a session,
	// packets are not taken, as where a disk is full.
	ErrDiskLow = errors.New("the disk has too little free")
	// ErrNoReader means that a file is a FIFO that nobody has opened for reading.
	ErrNoReader = outfile.ErrNoReader
)
