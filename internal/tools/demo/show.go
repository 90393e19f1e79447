package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/xdpcap/xdpcap/internal/message"
)

const (
	columns     = 100
	packetsShow = 12
)

// show prints the contents of a capture file, as other programs read it, and how to open it.
func show(out io.Writer, file string) error {
	if err := showPackets(out, file); err != nil {
		return err
	}
	s, err := summarize(file)
	if err != nil {
		return err
	}
	s.print(out)
	fmt.Fprintf(out, "\nOpen it: wireshark %s    Capture on an interface: make run IFACE=eth0\n", file)
	return nil
}

func showPackets(out io.Writer, file string) error {
	cmd := exec.Command("tshark", "-n", "-c", fmt.Sprint(packetsShow), "-r", file)
	if cmd.Err != nil {
		cmd = exec.Command("tcpdump", "-n", "-c", fmt.Sprint(packetsShow), "-r", file)
	}
	if cmd.Err != nil {
		fmt.Fprintln(out, "\nNeither tshark nor tcpdump is installed: no packets are shown.")
		return nil
	}
	fmt.Fprintf(out, "\n$ %s\n", message.CommandLine(cmd.Args))
	// Output on stderr matters only after a failure: tshark, for example, warns of running as root.
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	for line := range strings.Lines(string(text)) {
		fmt.Fprintln(out, shorten(strings.TrimRight(line, "\n")))
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", message.CommandLine(cmd.Args), err, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// shorten fits a line into the columns.
func shorten(line string) string {
	if runes := []rune(line); len(runes) > columns {
		return string(runes[:columns-3]) + "..."
	}
	return line
}
