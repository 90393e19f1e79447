package file

import (
	"errors"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// The kinds of errors of this package, for errors.Is. Errors may also be of package capture's
// kinds.
var (
	// ErrNameTaken means that the next file of a Rotation with NoOverwrite would have the name of
	// an existing file.
	ErrNameTaken = outfile.ErrNameTaken
	// ErrDiskLow means that a disk has less than Rotation.MinFree bytes free. If it ends a session,
	// the remaining packets are not taken, as when a disk is full.
	ErrDiskLow = errors.New("the disk has too little free")
	// ErrNoReader means that a file is a FIFO that no process has opened for reading.
	ErrNoReader = outfile.ErrNoReader
)
