package capture_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// While a capture runs, SIGUSR1 and /metrics count packets as captured when they have arrived at
// the output. A file has all of them. A pipe or stream that is not read has those in the kernel's
// buffers. The account counts all other packets as pending, so it adds up.
func TestLiveAccounts(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"file pipe stream", "stream file pipe", "pipe stream file"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			l := listenSmall(t, pair.Rx)
			pipe, stdout, err := os.Pipe()
			testnet.Must(t, err)
			defer pipe.Close()
			place := map[string]string{"file": systest.TempFile(t), "pipe": "-", "stream": "tcp://" + l.Addr().String()}
			args := []string{"-i", pair.RxName, "-B", "4M", "--serve", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--json"}
			for _, kind := range strings.Fields(order) {
				args = append(args, "-w", place[kind])
			}
			p := systest.Listening(t, pair.Rx, stdout, args...)
			stdout.Close()
			conn, err := l.AcceptTCP()
			testnet.Must(t, err)
			defer conn.Close()

			const size = 1400
			_, frames := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: 1500, Rate: 4000}) // more than fit into a pipe
			live := func() (s systest.Summary, of func(kind string) systest.OutputSummary) {
				t.Helper()
				s = systest.CountsOf(t, p, 0)
				if len(s.Outputs) != 4 || s.Outputs[3].Clients == nil || s.Captured != s.Outputs[0].Captured || s.NotTaken != s.Outputs[0].NotTaken {
					t.Fatalf("outputs %+v of %+v", s.Outputs, s)
				}
				if s.Seen != s.FilteredOut+s.NotSampled+s.Lost+s.Invalid+s.Captured+s.Pending || s.Pending != s.Interfaces[0].Pending {
					t.Fatalf("the account does not add up: %+v", s)
				}
				return s, func(kind string) systest.OutputSummary {
					for _, o := range s.Outputs {
						if o.Output == place[kind] {
							return o
						}
					}
					t.Fatalf("no %s in %+v", kind, s.Outputs)
					panic("")
				}
			}
			testnet.WaitFor(t, "the file to have everything", func() bool {
				_, of := live()
				return of("file").Captured == frames
			})
			held := func() int { // bytes in the pipe
				n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
				testnet.Must(t, err)
				return n
			}
			testnet.WaitFor(t, "the pipe to be full", func() bool {
				holds, err := unix.FcntlInt(pipe.Fd(), unix.F_GETPIPE_SZ, 0)
				return err == nil && held() > holds/10*9
			})
			s, of := live()
			full := held() // until now it may still have grown
			if got := of("pipe"); got.Captured > uint64(full/size) || got.Captured == 0 || got.NotTaken != 0 || got.Bytes != got.Captured*size {
				t.Errorf("the pipe holds %d bytes, %+v", full, got)
			}
			if got := of("stream"); got.Captured > frames/4 || got.NotTaken != 0 {
				t.Errorf("the stream has %+v", got)
			}
			if served := s.Outputs[3]; served.Captured != frames {
				t.Errorf("--serve has %+v", served)
			}
			var missing string
			defer func() {
				if t.Failed() {
					t.Log(missing)
				}
			}()
			testnet.WaitFor(t, "SIGUSR1 and /metrics to say the same", func() bool { // TCP may send a little more in between
				s, of := live()
				metrics := systest.Scrape(t, pair, systest.MetricsURL(t, p))
				missing = ""
				for _, want := range []string{
					fmt.Sprintf("xdpcap_output_captured_packets_total{output=%q} %d\n", place["pipe"], of("pipe").Captured),
					fmt.Sprintf("xdpcap_output_captured_packets_total{output=%q} %d\n", place["stream"], of("stream").Captured),
					fmt.Sprintf("xdpcap_output_not_taken_packets_total{output=%q} 0\n", place["stream"]),
					fmt.Sprintf("xdpcap_captured_packets_total{hook=\"xdp\",interface=\"rx0\",program=\"\",program_id=\"\"} %d\n", s.Captured),
				} {
					if !strings.Contains(metrics, want) {
						missing += fmt.Sprintf("no %s in %s", want, metrics)
					}
				}
				return missing == ""
			})

			conn.SetLinger(0)
			conn.Close()
			testnet.WaitFor(t, "what was under way to be lost", func() bool {
				_, of := live()
				got := of("stream")
				return got.Captured+got.NotTaken == frames
			})
			drained := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, pipe)
				drained <- err
			}()
			testnet.WaitFor(t, "the pipe's reader", func() bool {
				_, of := live()
				return of("pipe").Captured == frames
			})
			l.Close()
			p.Interrupt()
			if err := <-drained; err != nil {
				t.Error(err)
			}
			systest.Account(t, p.Stderr())
		})
	}
}

// listenSmall listens for connections with a receive buffer for a few packets.
func listenSmall(t *testing.T, ns *testnet.Namespace) *net.TCPListener {
	t.Helper()
	small := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
	}}
	var l net.Listener
	if err := ns.Do(func() (err error) {
		l, err = small.Listen(t.Context(), "tcp", "127.0.0.1:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

// The files that a ring has removed no longer count in the metric of their size.
func TestFileMetricOfRing(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	p := systest.Listening(t, pair.Rx, nil, "-i", "rx0", "-U", "-b", "packets:10", "-b", "files:2", "-w", filepath.Join(dir, "out.pcapng"), "--listen", "127.0.0.1:0")
	systest.SendNumbered(t, pair, 100, 100)
	testnet.WaitFor(t, "the size of the two files that are left", func() bool {
		left, _ := filepath.Glob(filepath.Join(dir, "out_0*"))
		size := int64(0)
		for _, path := range left {
			size += systest.FileSize(path)
		}
		text := systest.Scrape(t, pair, systest.MetricsURL(t, p))
		return strings.Contains(text, "} 100\n") && len(left) == 2 && strings.Contains(text, fmt.Sprintf("xdpcap_output_file_bytes %d\n", size))
	})
	p.Interrupt()
}
