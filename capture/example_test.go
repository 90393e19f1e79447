package capture_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
)

// Capture the first 128 bytes of every packet on eth0 into a file until Ctrl-C.
func Example() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	account, err := captureInto(ctx, "out.pcapng", "eth0")
	if err != nil {
		log.Print(err) // the account is exact all the same
	}
	log.Printf("%d of %d packets captured, %d lost", account.Captured, account.Seen, account.Lost)
}

func captureInto(ctx context.Context, path, iface string) (capture.Account, error) {
	f, err := file.Open(path, file.Options{Application: "example"})
	if err != nil {
		return capture.Account{}, err
	}
	defer f.Close()
	s, err := capture.Open(capture.Options{Interfaces: []string{iface}, SnapLen: 128})
	if err != nil {
		return capture.Account{}, err
	}
	accounts, err := s.Run(ctx, f)
	return accounts[0].Total(), err
}

// Count the packets that the XDP program on eth0 drops, by their receive queue.
func ExampleSession_Packets() {
	s, err := capture.Open(capture.Options{
		Interfaces: []string{"eth0"},
		Hooks:      []capture.Hook{capture.Exit},
		Verdicts:   []capture.Verdict{capture.Drop},
		Count:      1000,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	queues := make(map[uint32]int)
	for p, err := range s.Packets(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		queues[p.Queue]++
	}
	fmt.Println(queues)
}

// Print packets, as the package's comment shows.
func Example_packets() {
	ctx := context.Background()
	s, err := capture.Open(capture.Options{Interfaces: []string{"eth0"}, SnapLen: 128})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for p, err := range s.Packets(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(time.Unix(0, p.Stamp()), p.WireLen, len(p.Data), p.Queue, p.Source)
	}
	accounts, err := s.Accounts()
	fmt.Println(accounts.Total(), err) // 7 seen = 0 filtered out + 0 not sampled + ...
}

// The code in the package's comment is that of Example_packets, which is compiled.
func TestPackageComment(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("capture.go")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(source), "package capture\n")
	var code strings.Builder
	for line := range strings.Lines(comment) {
		if rest, ok := strings.CutPrefix(line, "//\t"); ok {
			code.WriteString("\t" + rest)
		}
	}
	if code.Len() == 0 || !strings.Contains(string(example), code.String()) {
		t.Errorf("the comment has\n%s", &code)
	}
}
