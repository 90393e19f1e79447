package filter

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
)

// needTcpdump skips a test if tcpdump is not installed. On CI that is a failure, because nothing
// else compares the compiler with libpcap.
func needTcpdump(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("tcpdump"); err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatalf("CI needs tcpdump: %v", err)
		}
		tb.Skipf("libpcap is asked through tcpdump: %v", err)
	}
}

// libpcap compiles an expression with tcpdump. format is -d, -dd or -ddd. The error is what libpcap
// says when it refuses the expression.
func libpcap(tb testing.TB, format, expr string) (string, error) {
	tb.Helper()
	return libpcapOn(tb, "EN10MB", format, expr)
}

// libpcapOn is libpcap for packets of a link type, by tcpdump's name.
func libpcapOn(tb testing.TB, linkType, format, expr string) (string, error) {
	tb.Helper()
	cmd := exec.Command("tcpdump", "-y", linkType, "-s", "262144", format, "--", expr)
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", errors.New(strings.TrimSpace(msg.String()))
	}
	if err != nil {
		tb.Fatalf("tcpdump %q: %v: %s", expr, err, &msg)
	}
	return out.String(), nil
}

// libpcapProgram is the program that libpcap makes of an expression.
func libpcapProgram(tb testing.TB, expr string) ([]bpf.RawInstruction, error) {
	tb.Helper()
	text, err := libpcap(tb, "-ddd", expr)
	if err != nil {
		return nil, err
	}
	prog, err := ParseRaw(text)
	if err != nil {
		tb.Fatalf("ParseRaw of tcpdump -ddd %q: %v", expr, err)
	}
	return prog, nil
}
