package file

import "github.com/xdpcap/xdpcap/internal/outfile"

// The kinds of errors that a caller can react to, for errors.Is, beside those of package capture.
var (
	// ErrNameTaken means that the next file of a Rotation with NoOverwrite would have the name of
	// an existing file.
	ErrNameTaken = outfile.ErrNameTaken
	// ErrNoReader means that a file is a FIFO that nobody has opened for reading.
	ErrNoReader = outfile.ErrNoReader
)
