package drops

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// Softnet is what the CPUs say, since Open, about packets of all interfaces that wait for them. It
// is in no sum, because these packets are counted elsewhere: one that finds a CPU's queue full is
// lost for the reason CPU_BACKLOG.
type Softnet struct {
	Full     uint64 `json:"backlog_full"` // packets that found the queue (backlog) of a CPU full
	Squeezed uint64 `json:"time_squeeze"` // how often a CPU had to leave packets for later, because its time or budget was over
}

// softnet reads /proc/net/softnet_stat. It counts nothing where that cannot be read. read may be
// called concurrently.
type softnet struct {
	file  io.ReaderAt
	close func()
	first Softnet
}

func openSoftnet() *softnet {
	s := &softnet{file: strings.NewReader(""), close: func() {}}
	if f, err := os.Open("/proc/net/softnet_stat"); err == nil {
		s.file, s.close = f, func() { f.Close() }
	}
	s.first = s.sum()
	return s
}

// read returns how the counters rose.
func (s *softnet) read() Softnet {
	now := s.sum()
	return Softnet{less(now.Full, s.first.Full), less(now.Squeezed, s.first.Squeezed)}
}

// sum adds up the lines of all CPUs. The second number of a line is Softnet.Full and the third is
// Softnet.Squeezed, both in hexadecimal.
func (s *softnet) sum() (all Softnet) {
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
