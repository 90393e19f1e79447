package capture_test

import (
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Contradicting flags are refused in one line, which has the remedy.
func TestRefused(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1", TxName: "tx1"})
	systest.CheckRefused(t, pair, map[string]string{
		"-i nosuch":    "there are: lo, ",
		"probe -i any": "interface any: interfaces must be named here; there are: lo, ",

		// Counters beside a capture.
		"-i rx0 --stats":               "--stats: rx0 runs no XDP program, and only a program gives verdicts: omit --stats, or start the program before",
		"-i rx0 --latency":             "--latency: rx0 runs no XDP program",
		"-i rx0 -Q out --stats":        "-Q out and --stats",
		"-i rx0 --count 1000":          "--count 1000: it takes no number, because it counts packets per protocol; to end after a number of packets, use -c",
		"-i rx0 --count=1000":          "to end after a number of packets, use -c",
		"-i rx0 --flows -1":            "--flows -1: must be 0 or more",
		"--hook /sys/fs/bpf/x --count": "omit it, or count beside the capture with xdpcap count",
		"-i rx0 --counter-interval 1s": "--counter-interval: nothing is sent to an sFlow collector, or counted for a file: add -w sflow://HOST, or --count",

		// Flags that need named interfaces.
		"-i any --sink":               "xdpcap: --sink and -i any: ",
		"-i lo -i veth* --drops":      "xdpcap: --drops takes the packets of named interfaces, each with its own -i, or of all together: -i any alone",
		"-i any -j adapter":           "xdpcap: -j adapter and -i any: ",
		"-i any -J":                   "xdpcap: -J and -i any: ",
		"-i any -P":                   "xdpcap: -P and -i any: ",
		"-i any --flows 5":            "xdpcap: --flows and -i any: ",
		"-i any --latency":            "xdpcap: --latency and -i any: ",
		"-i lo --except lo":           "xdpcap: --except omits interfaces that -i any or a pattern such as -i 'veth*' finds: add one of these",
		"-i any --except=":            "xdpcap: --except: must not be empty",
		"-i any --except lo,,docker0": `xdpcap: --except "": must not be empty`,
		"-i any --except a/b":         `xdpcap: --except "a/b": no interface has such a name`,
		"-i any --except [":           `xdpcap: --except "[": a [ or a \ in it is not complete`,
		"-i *[a":                      `xdpcap: -i "*[a": a [ or a \ in it is not complete`,
		"-i rx* --verdict drop":       "xdpcap: none of 2 interfaces can be captured: rx",

		// A capture that gives way has no hook that stays.
		"-i rx0 --give-way --sink":            "--give-way and --sink: this flag keeps a capture at one hook",
		"-i rx0 --give-way --verdict drop":    "--give-way and --verdict: this flag",
		"-i rx0 --give-way --sample drop=1":   "--give-way: verdicts in --sample and --trigger",
		"-i rx0 --give-way --rx-capture exit": "--give-way and --rx-capture",
		"-i rx0 --give-way --program x":       "--give-way and --program",
		"-i rx0 --give-way --count":           "--give-way and --count",
		"-i rx0 --give-way -j adapter":        "--give-way and -j adapter: at tc there are no stamps",
		"-i rx0 --give-way --at tc":           "--at tc and --give-way: this flag is for packets at XDP",
		"-i rx0 --give-way -Q out":            "-Q out and --give-way: this flag is for received packets",
		"-i rx0 --give-way --drops":           "--drops and --give-way",
		"--hook /sys/fs/bpf/x --give-way":     "--give-way and --hook",

		// Flags for received packets only.
		"-i lo -Q both":                                    `-Q: direction "both": must be in, out or inout`,
		"-i lo -Q out --sink":                              "-Q out and --sink: this flag is for received packets",
		"-i lo -Q out --verdict drop":                      "-Q out and --verdict",
		"-i lo -Q out --slower-than 5us":                   "-Q out and --slower-than",
		"-i lo -Q out --xdp-mode native":                   "-Q out and --xdp-mode",
		"-i lo -Q out -P":                                  "-Q out and --promiscuous-mode",
		"-i lo -Q out --ring 1M -w f --trigger tx":         "-Q out and --trigger: sent packets have no verdict",
		"-i lo -Q out --ring 1M -w f --trigger slower:5us": "-Q out and --trigger: sent packets have no run time",
		"--hook /none -Q out":                              "-Q and --hook",
	})
}
