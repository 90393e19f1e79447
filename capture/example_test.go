package capture_test

import (
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/xdpcap/xdpcap/capture"
)

// Capture the first 128 bytes of every packet on eth0 into a file until Ctrl-C.
func Example() {
	s, err := capture.Open(capture.Options{Interfaces: []string{"eth0"}, SnapLen: 128})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	f, err := os.Create("out.pcapng")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	w := capture.NewWriter(f, s, capture.WriterOptions{Application: "example"})

	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		s.Stop()
	}()

	var p capture.Packet
	for {
		if !s.Pending() {
			w.Flush() // an error stays, and Write returns it
		}
		if err = s.Read(&p); err != nil {
			break
		}
		if err = w.Write(&p); err != nil {
			break
		}
	}
	if err != io.EOF {
		log.Print(err)
	}
	stats, err := s.Stats()
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Close(stats); err != nil {
		log.Fatal(err)
	}
	log.Printf("%d of %d packets captured, %d lost", stats.Captured, stats.Seen, stats.Lost)
}
