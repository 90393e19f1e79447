package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bootLine skips the kernel's tests of its own ciphers and of its timer: on a busy machine too few
// ticks come while it counts them, and the kernel gives up. The tests lie in a ramfs: a tmpfs would
// have room for half of the memory that the initramfs leaves, which is not enough for what it has.
const bootLine = "quiet panic=-1 cryptomgr.notests no_timer_check rootfstype=ramfs"

// consoleFile is the kernel's console, in the directory of the kernel, where qemu runs.
const consoleFile = "console.log"

// command returns the command that runs the guest, with absolute paths. There are two processors
// because tests send on one and read on the other.
//
// The kernel unpacks the initramfs into at most half of the memory, which must have room for all
// test binaries.
//
// The network device is connected to a hub without another port. It is there for its driver, which
// has page pools and XDP since Linux 6.6. The interfaces that tests make, such as veth, have no
// page pools that the tracepoints see. Two more devices are connected to each other by a second
// hub: testnet.MustCards makes a pair of them, for XDP in the driver of a card.
func (a *architecture) command(ctx context.Context, image, initramfs string) *exec.Cmd {
	return exec.CommandContext(ctx, a.emulator, slices.Concat(a.processor, []string{
		"-smp", "2", "-m", "2048",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", image, "-initrd", initramfs, "-append", "console=" + a.console + " " + bootLine,
		"-netdev", "hubport,id=nobody,hubid=0", "-device", "vmxnet3,netdev=nobody,romfile=",
		"-netdev", "hubport,id=left,hubid=1", "-device", "virtio-net-pci,netdev=left,romfile=",
		"-netdev", "hubport,id=right,hubid=1", "-device", "virtio-net-pci,netdev=right,romfile="}, a.ports)...)
}

// boot runs the guest to its end. It prints a line per package, and the output of tests that
// failed.
func boot(ctx context.Context, k kernel, initramfs string, chosen []test, out io.Writer) error {
	image, err := k.image()
	if err != nil {
		return err
	}
	if image, err = filepath.Abs(image); err != nil {
		return err
	}
	if initramfs, err = filepath.Abs(initramfs); err != nil {
		return err
	}
	console := filepath.Join(k.dir(), consoleFile)
	cmd := k.arch.command(ctx, image, initramfs)
	cmd.Dir = k.dir()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(k.dir(), "report.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	r := newReport(k.version, out, log)
	err = r.read(stdout)
	err = errors.Join(err, cmd.Wait(), ctx.Err())
	if err == nil {
		err = r.complete()
	}
	if err != nil {
		return fmt.Errorf("%w\n%sthe end of the report:\n%sthe end of the console, %s:\n%s",
			err, stderr.String(), r.rest(), console, lastLines(console))
	}
	busy := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r.verdict(chosen, k.maySkip(), time.Since(begin), busy)
}

// lastLines returns the last 40 lines of a file.
func lastLines(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error() + "\n"
	}
	return tail(strings.Split(strings.ReplaceAll(strings.TrimSpace(string(data)), "\r", ""), "\n"))
}

func tail(lines []string) string {
	var b strings.Builder
	for _, line := range lines[max(0, len(lines)-40):] {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	return b.String()
}
