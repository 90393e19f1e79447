package counters

import (
	"cmp"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// eventNames are the names of the events in the table, and of their tracepoints in the kernel.
var eventNames = map[meter.Event]struct{ table, kernel string }{
	meter.Redirect:        {"XDP_REDIRECT", "xdp_redirect"},
	meter.RedirectErr:     {"XDP_REDIRECT", "xdp_redirect_err"},
	meter.Exception:       {"Exception", "xdp_exception"},
	meter.DevmapXmit:      {"devmap-xmit", "xdp_devmap_xmit"},
	meter.BulkTx:          {"bulk-tx", "xdp_bulk_tx"},
	meter.CPUMapEnqueue:   {"cpumap-enqueue", "xdp_cpumap_enqueue"},
	meter.CPUMapKthread:   {"cpumap-kthread", "xdp_cpumap_kthread"},
	meter.MemConnect:      {"mem-connect", "mem_connect"},
	meter.MemDisconnect:   {"mem-disconnect", "mem_disconnect"},
	meter.MemReturnFailed: {"mem-return-fail", "mem_return_failed"},
	meter.AttachFailed:    {"attach-failed", "bpf_xdp_link_attach_failed"},
}

// An EventCase is a meter.Case in words. Its keys are used in JSON and as labels of metrics.
type EventCase struct {
	Event   string `json:"event"`             // the tracepoint's name
	Reason  string `json:"reason,omitempty"`  // errno, verdict or type of memory
	From    string `json:"from,omitempty"`    // interface
	To      string `json:"to,omitempty"`      // interface, devmap_xmit
	MapID   uint32 `json:"map_id,omitempty"`  // of the cpumap, or of the map that a redirect used
	ToCPU   *int   `json:"to_cpu,omitempty"`  // cpumap_enqueue
	Message string `json:"message,omitempty"` // bpf_xdp_link_attach_failed
}

func newEventCase(c meter.Case) EventCase {
	e := EventCase{Event: eventNames[c.Event].kernel, From: c.From, To: c.To, MapID: c.MapID, Message: c.Message}
	switch {
	case c.Event == meter.Exception:
		e.Reason = c.Verdict.SlotName()
	case c.Event == meter.MemConnect, c.Event == meter.MemDisconnect, c.Event == meter.MemReturnFailed:
		e.Reason = c.Memory.String()
	case c.Errno != 0:
		e.Reason = cmp.Or(unix.ErrnoName(c.Errno), fmt.Sprintf("errno %d", int(c.Errno)))
	}
	if c.Event == meter.CPUMapEnqueue {
		e.ToCPU = &c.ToCPU
	}
	return e
}

// words begin the last column of the table: they distinguish the case from others of the event.
func (e *EventCase) words(event meter.Event) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case event == meter.Redirect:
		add("Success")
	case event == meter.Exception:
		add("XDP_%s", strings.ToUpper(e.Reason))
	case e.Reason != "":
		add("%s", e.Reason)
	}
	switch {
	case e.To != "":
		add("%s->%s", e.From, e.To)
	case e.From != "":
		add("%s", e.From)
	}
	if e.MapID != 0 {
		add("map %d", e.MapID)
	}
	if e.Message != "" {
		add("%s", e.Message)
	}
	return strings.Join(words, " ")
}
