package filter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const ethernet = 1 // libpcap's DLT number

// An oracle is a process of testdata/oracle.c, which compiles expressions with tcpdump's libpcap.
type oracle struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// theOracle serves all tests of the package. It ends with them, at the end of its input.
var theOracle = sync.OnceValues(startOracle)

func startOracle() (*oracle, error) {
	tcpdump, err := exec.LookPath("tcpdump")
	if err != nil {
		return nil, err
	}
	libraries, err := exec.Command("ldd", tcpdump).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", tcpdump, err)
	}
	library := regexp.MustCompile(`/\S*libpcap\.so\S*`).Find(libraries)
	if library == nil {
		return nil, fmt.Errorf("%s has no library libpcap:\n%s", tcpdump, libraries)
	}
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "oracle")
	if said, err := exec.Command("cc", "-o", program, "testdata/oracle.c", string(library)).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cc: %w\n%s", err, said)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &oracle{in: in, out: bufio.NewReader(out)}, cmd.Start()
}

// needLibpcap skips a test if libpcap is not available. On CI that is a failure, because no other
// test compares the compiler with libpcap.
func needLibpcap(tb testing.TB) *oracle {
	tb.Helper()
	o, err := theOracle()
	if err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatalf("CI needs tcpdump and a C compiler: %v", err)
		}
		tb.Skipf("a C program asks tcpdump's libpcap: %v", err)
	}
	return o
}

// libpcap compiles an expression for packets of a link type, and prints the program as tcpdump does
// with the option -d, -dd or -ddd. The error is libpcap's message if it refuses the expression.
func libpcap(tb testing.TB, linkType int, option, expr string) (string, error) {
	tb.Helper()
	o := needLibpcap(tb)
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := fmt.Fprintf(o.in, "%d\x00%s\x00%s\x00", linkType, option[1:], expr); err != nil {
		tb.Fatalf("asking libpcap about %q: %v", expr, err)
	}
	answer, err := o.out.ReadString(0)
	if err != nil {
		tb.Fatalf("libpcap does not answer to %q: %v", expr, err)
	}
	text := strings.TrimSuffix(answer[1:], "\x00")
	if answer[0] == 'e' {
		return "", errors.New(text)
	}
	return text, nil
}
