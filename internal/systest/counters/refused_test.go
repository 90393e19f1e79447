package counters_test

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Each mistake is one clear line and exit status 1, and no program is attached.
func TestCountersRefused(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	busy := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "busy0", TxName: "busy1"})
	testnet.MustReceiver(t, busy, xdp.Pass, testnet.ReceiverOptions{Count: true})
	everywhere := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	systest.InRx(t, pair, func(netlink.Link) error {
		return netlink.RouteAdd(&netlink.Route{LinkIndex: pair.RxIndex, Dst: everywhere})
	})
	refused := map[string]string{
		"stats":                                  "which interface? -i rx0",
		"count":                                  "which interface? -i rx0",
		"drops -i nosuch":                        `interface "nosuch" does not exist; there are: `,
		"drops extra":                            `a filter needs a named interface: add -i rx0`,
		"stats -i nosuch":                        `interface "nosuch" does not exist; there are: `,
		"stats -i rx0 --action explode":          `--action "explode": must be pass, drop or abort`,
		"stats -i rx0 --action drop":             "--action drop drops packets, and the default route is over rx0 ... --yes",
		"stats -i rx0 --action abort":            "--action abort drops packets, and the default route is over rx0 ... --yes",
		"stats -i busy0 --action drop":           "busy0 already runs XDP program count_packets (id  ... omit --action",
		"stats -i rx0 --interval 1ms":            "--interval 1ms: must be at least 10ms",
		"stats -i rx0 --listen nonsense":         "--listen nonsense:  ... like 127.0.0.1:9432",
		"stats -i rx0 --listen 9432":             "--listen 9432: must be HOST:PORT, or :PORT for all addresses of this machine, like 127.0.0.1:9432",
		"stats -i 1":                             `interface "1" does not exist: did you mean lo, which has this index?`,
		"stats -i rx0 --xdp-mode fast":           `XDP mode "fast"`,
		"stats -i rx0 extra":                     `xdpcap stats takes no argument "extra": an interface is given as -i extra`,
		"count -i rx0 --variant quick":           `variant "quick": must be naive, percpu or ultra`,
		"count -i rx0 -Q sideways":               `-Q: direction "sideways": must be in, out or inout`,
		"count -i rx0 -Q out --program lb":       "--program lb: XDP programs see only received packets: omit it, or say -Q inout",
		"stats -i rx0 -Q out":                    "-Q: sent packets have no verdict ... xdpcap count -Q out counts them",
		"count -i rx0 --flows -1":                "--flows -1: must be 0 or more",
		"count -i rx0 --verdict dropped":         `--verdict: verdict "dropped": must be aborted, drop`,
		"count -i rx0 --verdict drop -Q inout":   "--verdict: only received packets have a verdict: omit -Q",
		"count -i rx0 --verdict drop":            "rx0 runs no XDP program, so its packets have no verdict: omit --verdict",
		"count --listen :0 --verdict drop":       "--verdict needs a named interface: add -i rx0",
		"count -i rx0 --variant naive --per-cpu": "one counter for all CPUs ... take ultra or percpu",
		"stats -i rx0 -i rx0":                    "interface rx0 is given twice",
		"stats -i busy0 -i rx0 --action drop":    "--action drop drops packets, and the default route is over rx0",

		"latency":                                 "which interface? -i rx0",
		"latency -i nosuch":                       `interface "nosuch" does not exist`,
		"latency -i rx0":                          "rx0 runs no XDP program: attach the one to measure",
		"latency -i rx0 --kernel-stats":           "rx0 runs no XDP program",
		"latency -i rx0 --kernel-stats --per-cpu": "--per-cpu",

		"monitor -i nosuch":                       `interface "nosuch" does not exist; there are: lo, rx0, busy0`,
		"monitor --program nosuch":                `xdpcap: no XDP program "nosuch" is loaded: see xdpcap interfaces, or bpftool prog`,
		"replay --measure --program nosuch --yes": `no XDP program "nosuch" is loaded`,
		"monitor --program 4294967295":            "no XDP program has the id 4294967295",
		"monitor --record 0":                      "--record 0: must be a whole number of at least 1, or be omitted",
		"monitor --record many":                   "--record many: must be a whole number of at least 1, or be omitted",
		"monitor --record=2 3":                    `monitor takes no argument "3"`,
		"monitor --record 1 --interval 2s":        "--record prints single events, and --interval is about counters",
		"monitor --record 1 --listen 127.0.0.1:":  "--listen is about counters",
		"monitor --interval 1ms":                  "--interval 1ms: must be at least",
		"monitor extra":                           `"extra"`,

		"count -i r[]x --flows 2":        `-i "r[]x": a [ or a \ in it is not complete`,
		"count -i rx* --program lb":      "--program needs a named interface: add -i rx0",
		"stats -i any --action drop":     "--action drop needs a named interface: add -i rx0",
		"drops -i rx*":                   "-i rx*: one set of programs counts what the machine loses: name the interfaces, or take -i any",
		"count -i rx0 --color sometimes": "--color sometimes: must be auto, always or never",

		"count rx0":                     `xdpcap: xdpcap count: "rx0" is no filter: an interface is given as -i rx0; see xdpcap count --help` + "\n",
		"count -i rx0 -F /dev/null udp": "xdpcap: a filter is given on the command line and in -F /dev/null: give only one\n",
		"count --listen :0 udp":         "xdpcap: a filter needs a named interface: add -i rx0\n",
	}
	if testnet.ProbeFentry() != nil {
		for command, instead := range map[string]string{
			"stats -i busy0":                "xdpcap drops -i busy0 counts its drops; or use a kernel that permits them",
			"count -i busy0":                "--at tc counts what it passes, xdpcap drops -i busy0 what it drops; or detach that program",
			"count -i busy0 --verdict drop": "replay --program count_packets --sent --yes -w v.pcapng FILE, then xdpcap read --verdict drop v.pcapng; how many are dropped: xdpcap drops -i busy0; or use",
			"latency -i busy0":              "the mean: xdpcap latency -i busy0 --kernel-stats; ... replay --program count_packets --sent --yes FILE; or use",
		} {
			refused[command] = "busy0: trace program count_packets (id ... this kernel refuses fentry ... " + instead
		}
	}
	systest.CheckRefused(t, pair, refused)
}
