package files_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Without a file, stderr gets only the objects, and each source has its own account.
func TestJSONOnStderr(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.AddPair(t, pair, "more0", 1, 1)
	file := systest.TempFile(t)
	p := systest.Start(t, pair.Rx, nil, "-i", "rx0", "-i", "more0", "-w", file, "--json=/dev/stderr")
	testnet.WaitFor(t, "the file to begin", func() bool { return systest.FileSize(file) > 0 })
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
	p.Cmd.Process.Signal(syscall.SIGUSR1)
	testnet.WaitFor(t, "an object", func() bool { return strings.HasSuffix(p.Stderr(), "\n") })
	stderr := p.Interrupt()
	s := systest.Account(t, stderr)
	if n := strings.Count(stderr, "\n"); n != 2 || len(systest.Summaries(t, stderr)) != 2 {
		t.Errorf("%d lines: %s", n, stderr)
	}
	counts := systest.AccountKeys{Account: capture.Account{Seen: 300, Captured: 300, Bytes: 300 * 64}}
	want := systest.Summary{AccountKeys: counts, Duration: s.Duration, Transport: "perf", Interfaces: []systest.SourceSummary{
		{Interface: "rx0", Hook: "xdp", Mode: "native", AccountKeys: counts},
		{Interface: "more0", Hook: "xdp", Mode: "native"},
	}}
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(systest.Summary{}, systest.SourceSummary{})); diff != "" {
		t.Error(diff)
	}
}

// The object of --json has the reason why a capture did not begin, on stderr and in a file.
func TestJSONFailedStart(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := filepath.Join(t.TempDir(), "counts")
	for _, test := range []struct{ args, want string }{
		{"-i nosuch", `interface "nosuch" does not exist`},
		{"-i rx0 tcp port", "syntax error"},
		{"", "which interface? -i rx0"},
		{"-i rx0 -c 0", "-c 0: must be at least 1"},
		{"-i rx0 -c many", "-c many: must be a positive whole number"},
	} {
		for _, to := range []string{"/dev/stderr", file} {
			status, said := systest.Start(t, pair.Rx, nil, append(strings.Fields(test.args), "--json="+to)...).Wait()
			objects := said
			if to == file {
				objects = systest.Contents(t, file)
			}
			all := systest.Summaries(t, objects)
			if status != 1 || len(all) != 1 || !strings.Contains(all[0].Error, test.want) || all[0].Interfaces == nil {
				t.Errorf("%s to %s: exit status %d: %s", test.args, to, status, objects)
			}
			if !strings.Contains(said, "xdpcap: ") {
				t.Errorf("%s to %s: no error on stderr: %s", test.args, to, said)
			}
		}
	}
}

// --json appends to a descriptor's file directly. The commands of -z do not get the descriptor,
// because its reader may wait for its end.
func TestJSONDescriptor(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	script, out := filepath.Join(t.TempDir(), "descriptors"), systest.TempFile(t)
	said := out + ".descriptors" // in a directory where the sandbox allows new files
	testnet.Must(t, os.WriteFile(script, []byte("#!/bin/sh\nls -l /proc/$$/fd/ >"+said+"\n"), 0o700))
	log, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	testnet.Must(t, err)
	defer log.Close()
	log.WriteString("before\n")
	cmd := systest.Command("-i", pair.RxName, "-w", out, "-C", "1", "-z", script, "--json=/dev/fd/3")
	cmd.ExtraFiles = []*os.File{log}
	systest.StartCommand(t, pair.Rx, nil, cmd).Listening().Interrupt()
	if text := systest.Contents(t, log.Name()); systest.Account(t, text).Captured != 0 || !strings.HasPrefix(text, "before\n{") {
		t.Errorf("%s", text)
	}
	if text := systest.Contents(t, said); text == "" || strings.Contains(text, " 3 -> "+log.Name()) {
		t.Errorf("the command has the descriptor 3:\n%s", text)
	}
}

// An impossible value of --json is one clear line.
func TestJSONMistakes(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ args, want string }{
		{"--json=/dev/fd/987", "--json=/dev/fd/987: xdpcap was started without this descriptor"},
		{"--json=/no/such/file", "--json: open /no/such/file: no such file or directory"},
		{"--json=", `--json "": must be a file, or be omitted for standard error`},
		{"-D --json=counts", "-D prints to standard output: its --json takes no file"},
		{"--json=/dev/fd/1", "--json=/dev/fd/1 and the packets both need standard output"},
		{"--json=/dev/stdout -w -", "--json=/dev/stdout and the packets both need standard output"},
		{"--json /tmp/counts", "/tmp/counts is no filter: to write the counts to a file say --json=/tmp/counts"},
		{"--json counts.json tcp", "to write the counts to a file say --json=counts.json"},
	} {
		out := systest.NewPipe(t) // for /dev/fd/1, whose text is not checked
		cmd := systest.Command(append([]string{"-i", "rx0"}, strings.Fields(test.args)...)...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = out.In, &stderr
		testnet.Must(t, pair.Rx.Start(cmd))
		cmd.Wait()
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		if last := lines[len(lines)-1]; cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(last, "xdpcap: ") || !strings.Contains(last, test.want) {
			t.Errorf("%s: %v: %s", test.args, cmd.ProcessState, stderr.String())
		}
	}
}

// interfaces --json and -D --json print the same array, and the table has its states.
func TestInterfacesJSON(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull)
	for _, args := range [][]string{{"interfaces", "--json"}, {"-D", "--json"}} {
		out := systest.RunInside(t, pair.Rx, systest.Command(args...))
		var all []systest.InterfaceKeys
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if len(all) != 2 || all[0].Name != "lo" || all[0].Program != nil {
			t.Errorf("%v: %s", args, out)
		}
		rx := all[1]
		if rx.Name != "rx0" || rx.Driver != "veth" || rx.Type != "ether" || !rx.Up || rx.MAC == "" || rx.MTU != 1500 || rx.RxQueues == 0 {
			t.Errorf("%v: %+v", args, rx)
		}
		if rx.Program == nil || rx.Program.ID == 0 || !strings.HasPrefix(rx.Program.Name, "xdpcap_") || rx.Program.Mode != "native" {
			t.Errorf("%v: program %+v", args, rx.Program)
		}
	}

	systest.RunInside(t, pair.Rx, exec.Command("ip", "link", "set", "lo", "down"))
	table := systest.RunInside(t, pair.Rx, systest.Command("interfaces"))
	for _, row := range []string{`(?m)^lo +\S+ +\d+ +down `, `(?m)^rx0 +veth +1500 +up +native +xdpcap_`} {
		if !regexp.MustCompile(row).MatchString(table) {
			t.Errorf("no row %s:\n%s", row, table)
		}
	}
}
