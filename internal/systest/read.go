package systest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// NewKey creates a key file.
func NewKey(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	testnet.Must(t, os.WriteFile(path, []byte("0123456789abcdeffedcba9876543210"+"00112233445566778899aabbccddeeff\n"), 0o600))
	return path
}

// FollowKeys is a packet as read --follow --json prints it.
type FollowKeys struct {
	Records     []followedRecord `json:"records"`
	Fits        int              `json:"fits"`
	AmbiguousAt []string         `json:"ambiguous_at"`
}

type followedRecord struct {
	PacketKeys
	After int64 `json:"after_ns"`
}

// Places returns the places of the packet, with its verdicts.
func (k FollowKeys) Places() string {
	var all []string
	for _, r := range k.Records {
		all = append(all, strings.TrimSpace(r.Interface+" "+r.Hook+" "+r.Verdict))
	}
	return strings.Join(all, ", ")
}

// StatsOf returns the output of read --stats --json for a file.
func StatsOf(t *testing.T, file string) (r ReadReport) {
	t.Helper()
	testnet.Must(t, json.Unmarshal([]byte(MustRead(t, "--stats", "--json", file)), &r))
	return r
}

// CheckEstimate fails if an estimate is more than five standard deviations from the true value. The
// bounds are two standard deviations from the estimate.
func CheckEstimate(t *testing.T, what string, truth, estimate, low, high uint64) {
	t.Helper()
	if off := math.Abs(float64(estimate) - float64(truth)); off > 5./4*float64(high-low) {
		t.Errorf("%s: %d are estimated, between %d and %d, and there were %d", what, estimate, low, high, truth)
	}
}

// RunRead runs xdpcap read, and returns its output and exit status.
func RunRead(t *testing.T, stdin io.Reader, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := Command(append([]string{"read"}, args...)...)
	cmd.Stdin = stdin
	cmd.Env = append(cmd.Env, "TZ=UTC")
	return Run(t, nil, cmd)
}

// MustRead returns the output of read, and fails on an error or any text on stderr.
func MustRead(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := RunRead(t, nil, args...)
	if status != 0 || stderr != "" {
		t.Errorf("read %q: exit status %d: %s", args, status, stderr)
	}
	return stdout
}

// A writtenFile is a file of a capture, with the lines that the capture prints.
type writtenFile struct {
	Path    string
	Packets []capture.Packet
	sources []capture.Source
}

// WriteSample writes the packets of the test suite, as from the entry and the exit of a program.
func WriteSample(t *testing.T, sources ...capture.Source) writtenFile {
	t.Helper()
	w := writtenFile{Path: TempFile(t), sources: sources}
	for i, frame := range testnet.MixedTraffic() {
		p := capture.Packet{Source: uint16(i % len(sources)), Facts: &capture.Facts{Time: time.Unix(1700000000, int64(i)*1001).UnixNano(), WireLen: uint32(len(frame)), Queue: uint32(i % 3), ID: uint64(i), Verdict: capture.Verdict(i % 7)}, Data: frame}
		if i%4 == 3 {
			p.Weight = 100
		}
		if i%5 == 4 {
			p.Dropped = uint64(i)
		}
		if sources[p.Source].Hook == capture.Exit && (p.Verdict == capture.Tx || p.Verdict == capture.Redirect) {
			p.To = capture.Outlet(i % 5)
		}
		if sources[p.Source].Hook == capture.Exit && p.Verdict.Discards() {
			p.Reason = capture.Reason(i % 3)
		}
		w.Packets = append(w.Packets, p)
	}
	var b bytes.Buffer
	out := file.NewWriter(&b, file.Options{Application: "xdpcap", CommandLine: "xdpcap -i eth0"})
	w.WriteTo(t, out)
	testnet.Must(t, os.WriteFile(w.Path, b.Bytes(), 0o600))
	return w
}

// OutletName and ReasonName are the names in files of WriteSample.
func OutletName(to capture.Outlet) string { return fmt.Sprintf("out\x1b%d", to) }

func ReasonName(_ uint16, f *capture.Facts) string { return fmt.Sprintf("REASON_%d", f.Reason) }

func locationName(capture.Location) string { return "nowhere" }

func (w *writtenFile) WriteTo(t *testing.T, out capture.Output) {
	t.Helper()
	if err := out.Begin(capture.Description{
		Sources: w.sources, Options: capture.Options{SnapLen: 65535}, Started: time.Unix(1699999999, 0),
		OutletName: OutletName, ReasonName: ReasonName, LocationName: locationName,
	}); err != nil {
		t.Fatal(err)
	}
	for i := range w.Packets {
		testnet.Must(t, out.Write(w.Packets[i:i+1]))
	}
	accounts := make(capture.Accounts, len(w.sources))
	for i := range accounts {
		accounts[i] = capture.Account{Seen: 100, FilteredOut: 50, NotSampled: 20, Lost: 10}
		for _, p := range w.Packets {
			if int(p.Source) == i {
				accounts[i].Captured++
			}
		}
		accounts[i].Lost += 20 - accounts[i].Captured
	}
	if _, err := out.End(accounts); err != nil {
		t.Fatal(err)
	}
}

// PlainSource is an interface without a traced program.
var PlainSource = capture.Source{Name: "eth0"}

// PacketKeys is a packet as read --json prints it.
type PacketKeys struct {
	Number    uint64    `json:"number"`
	Time      time.Time `json:"time"`
	File      string    `json:"file"`
	Interface string    `json:"interface"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Direction string    `json:"direction"`
	Hook      string    `json:"hook"`
	Program   string    `json:"program"`
	Verdict   string    `json:"verdict"`
	Returned  *int32    `json:"returned"`
	To        string    `json:"to"`
	Queue     *uint32   `json:"queue"`
	ID        *uint64   `json:"id"`
	Lost      uint64    `json:"lost_before"`
	Length    uint32    `json:"length"`
	Captured  int       `json:"captured"`
	Weight    uint32    `json:"weight"`
	GSOSize   uint32    `json:"gso_size"`
	RunTime   uint32    `json:"run_time_ns"`
	Reason    string    `json:"reason"`
	Location  string    `json:"location"`
	Device    string    `json:"device"`
	Hash      string    `json:"hash"`
	HashBy    string    `json:"hash_by"`
	IfIndex   uint32    `json:"ifindex"`
	SetBack   int64     `json:"clock_set_back_ns"`
	LinkType  *uint16   `json:"link_type"`
	FromMAC   string    `json:"source_mac"`
	ToMAC     string    `json:"destination_mac"`
	VLANs     []uint16  `json:"vlans"`
	FlowKeys
	Flags     []string `json:"tcp_flags"`
	Community string   `json:"community_id"`
	Comments  []string `json:"comments"`
	Line      string   `json:"line"`
}

// ReadBytes returns the bytes of a file.
func ReadBytes(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	testnet.Must(t, err)
	return data
}
