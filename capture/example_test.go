package capture_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

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
