package files_test

// Words and limits of the command line that tests name.
const (
	onStderr       = "/dev/stderr"
	waitingThreads = 10 // that may wait in the kernel
	alikeNotices   = 10 // that are told in full
)
