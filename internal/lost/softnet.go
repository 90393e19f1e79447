package lost

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// Softnet has the CPUs' counters, since OpenSoftnet, of packets of all interfaces that wait for
// them. It is not added to sums, because these packets are counted elsewhere: one that finds a
// CPU's queue full is lost for the reason CPU_BACKLOG.
type Softnet struct {
	Full     uint64 `json:"backlog_full"` // packets that found the queue (backlog) of a CPU full
	Squeezed uint64 `json:"time_squeeze"` // how often a CPU had to leave packets for later, because its time or budget was over
}

// A SoftnetFile reads /proc/net/softnet_stat. Its counters are 0 if that cannot be read. Read may
// be called concurrently.
type SoftnetFile struct {
	file  io.ReaderAt
	Close func()
	first Softnet
}

// OpenSoftnet begins to count. Without the file, the counters are 0.
func OpenSoftnet() *SoftnetFile {
	s := &SoftnetFile{file: strings.NewReader(""), Close: func() {}}
	if f, err := os.Open("/proc/net/softnet_stat"); err == nil {
		s.file, s.Close = f, func() { f.Close() }
	}
	s.first = s.sum()
	return s
}

// Read returns how the counters rose.
func (s *SoftnetFile) Read() Softnet {
	now := s.sum()
	return Softnet{Rise(s.first.Full, now.Full), Rise(s.first.Squeezed, now.Squeezed)}
}

// sum adds up the lines of all CPUs. The second number of a line is Softnet.Full and the third is
// Softnet.Squeezed, both in hexadecimal.
func (s *SoftnetFile) sum() (all Softnet) {
	lines := bufio.NewScanner(io.NewSectionReader(s.file, 0, 1<<20))
	for lines.Scan() {
		numbers := strings.Fields(lines.Text())
		if len(numbers) < 3 {
			continue
		}
		full, _ := strconv.ParseUint(numbers[1], 16, 64)
		squeezed, _ := strconv.ParseUint(numbers[2], 16, 64)
		all.Full += full
		all.Squeezed += squeezed
	}
	return all
}
