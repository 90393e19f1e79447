package replay

import (
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
)

// measureIdle returns the run time that the kernel measures for an empty program: the median of 201
// runs. If traced is set, it includes the cost of the tracer that finds outlets.
func measureIdle(traced bool) (time.Duration, error) {
	prog, err := loadEmpty()
	if err != nil {
		return 0, err
	}
	defer prog.Close()
	if traced {
		o, err := openOutlets(prog)
		if err != nil {
			return 0, err
		}
		defer o.close()
	}
	r := newRunner(&Program{Kernel: prog}, 0)
	defer r.close()
	times := make([]time.Duration, 201)
	packet, to := make([]byte, 64), make([]byte, 64)
	for i := range times {
		if _, _, times[i], err = r.run(packet, 0, to); err != nil {
			return 0, err
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// loadEmpty loads an empty program, whose cost is the overhead of running any program.
func loadEmpty() (*ebpf.Program, error) {
	spec, err := loadReplay()
	if err != nil {
		return nil, err
	}
	prog, err := ebpf.NewProgram(spec.Programs[replayProgXdpcapEmpty])
	if err != nil {
		return nil, support.ExplainLoad("load a program that does nothing", err)
	}
	return prog, nil
}
