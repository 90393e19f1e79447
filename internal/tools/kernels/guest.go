package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A mark is at the start of a line, followed by a value.
const (
	markKernel  = "## kernel "  // its release
	markPackage = "## package " // its directory; its output follows
	markEnd     = "## end "     // the test binary's exit status and its run time in seconds
	markDone    = "## done "    // the guest's own error, empty if there is none
)

// guestMain is /init, the first process of the guest. It starts all others.
func guestMain() {
	err := mountAll()
	if err == nil {
		err = runPlan()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err) // on the console
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"devtmpfs", "/dev"},
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
	return os.Chmod("/tmp", 0o777|os.ModeSticky)
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
	port, err := openPort()
	if err != nil {
		return err
	}
	defer port.Close()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	fmt.Fprintf(port, "\n%s%s\n", markKernel, unix.ByteSliceToString(name.Release[:]))
	if err = errors.Join(loadModules(), loopbackUp()); err == nil {
		for _, t := range p.Tests {
			t.run(port, p)
		}
	}
	fmt.Fprintf(port, "\n%s", markDone)
	if err != nil {
		fmt.Fprint(port, err)
	}
	fmt.Fprintln(port)
	// Waits until the port has sent everything, because the rest would be lost at power-off.
	return unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1)
}

// openPort opens the port that carries the output of the tests, divided by marks, and sets it up to
// send bytes unchanged. It is not the console, so that the kernel's messages do not get in between.
func openPort() (*os.File, error) {
	reportPort := architectureOf(runtime.GOARCH).report
	port, err := os.OpenFile(reportPort, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	settings, err := unix.IoctlGetTermios(int(port.Fd()), unix.TCGETS)
	if err == nil {
		settings.Oflag &^= unix.OPOST
		err = unix.IoctlSetTermios(int(port.Fd()), unix.TCSETS, settings)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up %s: %w", reportPort, err), port.Close())
	}
	return port, nil
}

// loadModules loads the modules in the order of their names, so that each comes after its
// dependencies.
func loadModules() error {
	files, err := filepath.Glob("/" + moduleDir + "/*")
	if err != nil {
		return err
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := unix.InitModule(data, ""); err != nil {
			return fmt.Errorf("load %s: %w", path, err)
		}
		os.Remove(path)
	}
	return nil
}

// loopbackUp lets tests reach servers of their own at 127.0.0.1.
func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("look up lo: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// packageLimit ends the tests of a package that hangs, so that they tell where. It is much longer
// than they need: on a slow and busy machine those of cmd/xdpcap have taken 20 minutes.
const packageLimit = "50m"

// run runs the test binary in its directory, as go test does.
func (t test) run(port io.Writer, p plan) {
	fmt.Fprintf(port, "\n%s%s\n", markPackage, t.Package)
	dir := filepath.Join("/", sourceDir, t.Package)
	cmd := exec.Command(filepath.Join(dir, filepath.Base(t.Binary)), "-test.v", "-test.timeout="+packageLimit, "-test.run="+p.Run)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=/tmp", "PATH=/bin", "XDPCAP_EMULATED=" + p.Kernel, "XDPCAP=/bin/" + xdpcap}
	// Output goes through a pipe, because tests must not see a terminal.
	out := struct{ io.Writer }{port}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second // in case a process that the test left behind keeps the pipe open
	begin := time.Now()
	err := cmd.Run()
	status := cmd.ProcessState.ExitCode()
	if err != nil && status <= 0 {
		fmt.Fprintf(port, "\n%s: %v\n", t.Package, err)
		status = -1
	}
	fmt.Fprintf(port, "\n%s%d %.1f\n", markEnd, status, time.Since(begin).Seconds())
	runtime.GC()
}
