package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An event is a line of the guest's report. Events of a test have the form of go test -json,
// because Go's test2json makes them.
type event struct {
	Action string
	name
	Output  string  `json:",omitempty"`
	Elapsed float64 `json:",omitempty"` // seconds
}

// Actions of the guest's own events.
const (
	actionKernel = "kernel" // Output is the release of the kernel that runs
	actionExit   = "exit"   // the tests of Package have ended, after Elapsed; Output is their error
	actionDone   = "done"   // the guest's last event; Output is its own error
)

// guestMain is the first process of the guest. It starts all others.
func guestMain() {
	err := mountAll()
	if err == nil {
		err = runPlan()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err) // on the console
	}
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"devtmpfs", "/dev"},
		{"devpts", "/dev/pts"},
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"bpf", "/sys/fs/bpf"},
		{"tracefs", "/sys/kernel/tracing"},
		{"tmpfs", "/tmp"},
		{"tmpfs", "/run"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}

func runPlan() error {
	var p plan
	list, err := os.ReadFile("/" + planFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(list, &p); err != nil {
		return err
	}
	// Not the console, so that the kernel's messages do not get in between.
	port, err := os.OpenFile(p.Report, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer port.Close()
	var system unix.Utsname
	if err := unix.Uname(&system); err != nil {
		return err
	}
	report := json.NewEncoder(port)
	report.Encode(event{Action: actionKernel, Output: unix.ByteSliceToString(system.Release[:])})
	loopback := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "lo"}} // tests start servers there
	if err = errors.Join(loadModules(), netlink.LinkSetUp(loopback)); err == nil {
		for _, t := range p.Tests {
			begin := time.Now()
			err := t.run(port, p.Kernel)
			report.Encode(event{Action: actionExit, name: name{Package: t.Package}, Output: text(err), Elapsed: time.Since(begin).Seconds()})
		}
	}
	report.Encode(event{Action: actionDone, Output: text(err)})
	// Waits until the port has sent everything, because the rest would be lost at power-off.
	return unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1)
}

// text returns the text of an error, "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// loadModules loads the modules in the order of their names, so that each comes after its
// dependencies.
func loadModules() error {
	// Otherwise each new namespace gets a tunnel of each kind.
	if err := os.WriteFile("/proc/sys/net/core/fb_tunnels_only_for_init_net", []byte("1"), 0); err != nil {
		return err
	}
	files, _ := filepath.Glob("/" + moduleDir + "/*")
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := unix.InitModule(data, ""); err != nil {
			return fmt.Errorf("load %s: %w", path, err)
		}
	}
	return nil
}

// packageLimit ends the tests of a package that hangs: the test binary then prints all goroutines.
// It is much longer than the tests need, because a busy machine takes several times as long.
const packageLimit = "50m"

// atOnce is how many tests of a package run at once. A test waits most of the time, and meanwhile
// another one can use the processor.
const atOnce = "2"

// run runs the test binary in its directory, like go test, and writes its events to the port.
func (t test) run(port *os.File, kernel string) error {
	dir := filepath.Join("/", sourceDir, t.Package)
	cmd := exec.Command(filepath.Join(dir, testBinary),
		"-test.v=test2json", "-test.timeout="+packageLimit, "-test.parallel="+atOnce, "-test.run="+t.Run)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=/tmp", "PATH=/bin:/sbin:/usr/bin:/usr/sbin", "XDPCAP_EMULATED=" + kernel, "XDPCAP=/bin/xdpcap"}
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	// Without -t test2json leaves out how long a test took.
	convert := exec.Command("/bin/test2json", "-t", "-p", t.Package)
	convert.Stdin, convert.Stdout, convert.Stderr = lines, port, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(convert.Run(), cmd.Wait())
}
