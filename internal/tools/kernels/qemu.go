package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bootLine skips the kernel's tests of its own ciphers and of its timer: on a busy machine too few
// ticks come while it counts them, and the kernel gives up. The root is a ramfs: a tmpfs would have
// room for half of the memory that the initramfs leaves, too little for the files. The first
// process is this program.
const bootLine = "quiet panic=-1 cryptomgr.notests no_timer_check rootfstype=ramfs rdinit=/bin/kernels"

// command returns the command that runs the guest. There are two processors because tests send on
// one and read on the other.
//
// The kernel unpacks the initramfs into at most half of the memory, which must have room for all
// test binaries.
//
// Two pairs of network devices are connected by a hub each, for XDP in the driver of a card: see
// testnet.MustCards. The driver vmxnet3 has XDP since Linux 6.6, and page pools with tracepoints,
// which the interfaces that tests make, such as veth, lack. Its devices ignore a MAC address that
// is set later.
func (a *architecture) command(ctx context.Context, image, initramfs, console string) *exec.Cmd {
	return exec.CommandContext(ctx, a.emulator, slices.Concat(a.processor, []string{
		"-smp", "2", "-m", "2048",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", image, "-initrd", initramfs, "-append", "console=" + a.console + " " + bootLine,
		"-netdev", "hubport,id=first,hubid=0", "-device", "vmxnet3,netdev=first,mac=02:00:00:00:00:01,romfile=",
		"-netdev", "hubport,id=second,hubid=0", "-device", "vmxnet3,netdev=second,mac=02:00:00:00:00:02,romfile=",
		"-netdev", "hubport,id=left,hubid=1", "-device", "virtio-net-pci,netdev=left,romfile=",
		"-netdev", "hubport,id=right,hubid=1", "-device", "virtio-net-pci,netdev=right,romfile=",
		"-serial", "file:" + console}, a.report)...)
}

// test boots the kernel and runs the tests there. It returns their report: a line per package, and
// the output of tests that failed.
func (k kernel) test(ctx context.Context, tests []test, limit time.Duration) (string, error) {
	if err := k.get(ctx); err != nil {
		return "", err
	}
	image, err := k.image()
	if err != nil {
		return "", err
	}
	initramfs, console := filepath.Join(k.dir(), "initramfs"), filepath.Join(k.dir(), "console.log")
	if err := k.writeInitramfs(ctx, initramfs, tests); err != nil {
		return "", fmt.Errorf("write initramfs: %w", err)
	}
	log, err := os.Create(filepath.Join(k.dir(), "report.log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := k.arch.command(ctx, image, initramfs, console)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return "", err
	}
	r := newReport(k.version, log)
	if err := errors.Join(r.read(stdout), cmd.Wait(), ctx.Err()); err != nil {
		messages, _ := os.ReadFile(console)
		return r.text.String(), fmt.Errorf("%w\n%sthe end of the report:\n%sthe end of the console, %s:\n%s",
			err, &stderr, tail(r.unfinished()), console, tail(string(messages)))
	}
	busy := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	err = r.verdict(tests, k.maySkip(), time.Since(begin), busy)
	return r.text.String(), err
}

// tail returns the last 40 lines of a text, indented.
func tail(text string) string {
	var b strings.Builder
	lines := slices.Collect(strings.Lines(text))
	for _, line := range lines[max(0, len(lines)-40):] {
		fmt.Fprintf(&b, "    %s\n", strings.TrimRight(line, "\r\n"))
	}
	return b.String()
}
