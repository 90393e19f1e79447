package stream_test

import (
	"context"
	"log"
	"net"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/stream"
)

// Serve the packets of eth0 to `wireshark -k -i TCP@127.0.0.1:19000`, to any number at once.
func ExampleServer() {
	listener, err := net.Listen("tcp", "127.0.0.1:19000")
	if err != nil {
		log.Fatal(err)
	}
	server := stream.NewServer(listener, nil, stream.Options{Application: "example"})
	defer server.Close()
	session, err := capture.Open(capture.Options{Interfaces: []string{"eth0"}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.Run(context.Background(), server); err != nil {
		log.Print(err)
	}
	log.Printf("%d packets were lost by slow clients", server.Account().Lost)
}
