package capture

import (
	"errors"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The kinds of errors that a caller can do something about, for errors.Is. An error's own text is
// complete without its kind: it says what was tried, on what, and why that failed.
var (
	// ErrInterfaceGone: an interface of the session was deleted or moved to another network
	// namespace while the session ran.
	ErrInterfaceGone = errors.New("interface gone")
	// ErrBusy: an XDP program was attached to an interface while Open was about to.
	ErrBusy = xdp.ErrBusy
	// ErrNeedsExit: Options.Verdicts or Options.FilterAtExit, without Exit alone among
	// Options.Hooks.
	ErrNeedsExit = errors.New("only known at the exit of a traced program")
	// ErrTraced: Options.Sink or Options.Mode where a program is traced instead of attached.
	ErrTraced = errors.New("not possible where a program is traced")
)
