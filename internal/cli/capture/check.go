package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// check finds mistakes in the flags before anything is touched.
func (o *Options) check(flags *pflag.FlagSet) (err error) {
	given := flags.Changed
	if given("skip") {
		return errors.New("--skip is for -r: capture all packets, and omit the first ones with xdpcap read --skip")
	}
	if err := o.ReadTargets(given); err != nil {
		return err
	}
	if (given("pod") || o.follows()) && !given("at") && !slices.ContainsFunc(pastXDP, given) {
		o.at = capture.AtAuto.String() // the other end of a veth would lose TSO, and tc may redirect to a pod
	}
	if err := o.applyRules(flags); err != nil {
		return err
	}
	_, text := o.Text()
	o.lines = text && len(o.Writes) == 0
	if err := frame.CheckInterfaces(o.interfaces); err != nil {
		return err
	}
	if len(o.interfaces) == 0 && o.session.HookMap == "" && given("pod") {
		if o.interfaces, err = podInterfaces(); err != nil {
			return err
		}
	}
	switch {
	case len(o.interfaces) == 0 && o.session.StackDrops:
		return fmt.Errorf("--drops: %w", o.Process.WhichInterface(", or -i any for all"))
	case len(o.interfaces) == 0 && o.session.HookMap == "":
		return withoutInterface(o.Process, o.filter.Words)
	case len(o.interfaces) > 0 && o.session.HookMap != "":
		return errors.New("-i and --hook: a hook map is captured alone")
	case o.buffer.Bytes != 0 && (o.buffer.Bytes < capture.MinBuffer || o.buffer.Bytes > capture.MaxBuffer):
		return fmt.Errorf("-B: %d bytes for each CPU: must be %d KiB to %d MiB, such as -B 8M", o.buffer.Bytes, capture.MinBuffer>>10, capture.MaxBuffer>>20)
	case o.Count == 0 && given("packet-count"):
		return errors.New("-c 0: must be at least 1")
	case o.session.SampleFlows == 0:
		return errors.New("--sample-flows 0: must be at least 1, which is every flow")
	case o.session.First == 0 && given("first"):
		return errors.New("--first 0: must be at least 1")
	case o.session.MaxRate == 0 && given("max-rate"):
		return errors.New("--max-rate 0: must be at least 1")
	case o.promiscuous && o.notPromiscuous:
		return errors.New("-P and -p: choose one")
	case o.account && (len(o.Writes) > 0 || o.Print || o.Live.Serve != ""):
		return errors.New("--account keeps no packets: omit -w, --serve and --print, or --account")
	case o.Print && o.WritesStdout():
		return errors.New("--print and -w - both need standard output: write to a file, or do not print")
	case o.json.descriptor() == unix.Stdout && (o.Print || o.WritesStdout() || len(o.Writes) == 0 && o.Live.Serve == "" && !o.account):
		return fmt.Errorf("--json=%s and the packets both need standard output: write one of them to a file", o.json.file)
	}
	for _, check := range []func(given func(flag string) bool) error{
		o.checkSampling, o.checkRecorder, o.checkSFlow, o.checkCard, o.checkCompanions, o.checkDirection,
		o.checkStackDrops, o.checkPatterns, o.checkHooks, o.checkWords,
	} {
		if err := check(given); err != nil {
			return err
		}
	}
	if !given("ring") { // the files of a recorder are no series
		o.Series, err = o.Rotation(given)
	}
	if err == nil && o.Series != nil && o.Rotate.PrintFiles && o.json.descriptor() == unix.Stdout {
		return fmt.Errorf("--print-files and --json=%s both need standard output: choose another file", o.json.file)
	}
	return err
}

// checkWords reads the flags that take certain words.
func (o *Options) checkWords(given func(flag string) bool) (err error) {
	if o.session.At, err = capture.ParseAt(o.at); err != nil {
		return fmt.Errorf("--at: %w", err)
	}
	if o.session.Mode, err = capture.ParseMode(o.mode); err != nil {
		return fmt.Errorf("--xdp-mode: %w", err)
	}
	if o.session.Verdicts, err = frame.ParseVerdicts(o.verdictNames); err != nil {
		return err
	}
	if o.filterAt != "entry" && o.filterAt != "exit" {
		return fmt.Errorf("--filter-at %s: must be entry or exit", o.filterAt)
	}
	if given("transport") {
		if o.session.Transport, err = capture.ParseTransport(o.transportName); err != nil {
			return fmt.Errorf("--transport: %w", err)
		}
	}
	return nil
}

// explainNoProgram names the flags that need an XDP program, if that is what the session lacks.
func (o *Options) explainNoProgram(err error, flags *pflag.FlagSet) error {
	var need []string
	for name, needs := range map[string]bool{
		"verdict": true, "slower-than": true, "rx-capture": true, "program": true, "reason-map": true,
		"sample": o.sample.verdicts != nil, "trigger": o.recorder.atExit != needNothing,
	} {
		if needs && flags.Changed(name) {
			need = append(need, "--"+name)
		}
	}
	if !errors.Is(err, xdp.ErrNoProgram) || need == nil {
		return err
	}
	slices.Sort(need)
	return fmt.Errorf("%v: omit %s to capture at its XDP hook, or see where a program runs: %s", err, strings.Join(need, ", "), o.Process.ListInterfaces())
}

// checkHooks reads --rx-capture, and refuses what is not known at these hooks.
func (o *Options) checkHooks(given func(flag string) bool) error {
	// Only an exit has a verdict, a reason and a run time, or a packet as it leaves the program.
	byEnd := given("verdict") || given("slower-than") || o.sample.verdicts != nil || given("reason") && !o.session.StackDrops
	if (byEnd || given("reason-map") && !o.session.StackDrops || o.filterAt == "exit" || o.recorder.atExit != needNothing) &&
		!given("rx-capture") && o.session.HookMap == "" {
		o.hookNames = []string{"exit"}
	}
	for _, name := range o.hookNames {
		h, err := capture.ParseHook(name)
		if err != nil {
			return fmt.Errorf("--rx-capture: %w", err)
		}
		if !slices.Contains(o.session.Hooks, h) {
			o.session.Hooks = append(o.session.Hooks, h)
		}
	}
	slices.Sort(o.session.Hooks)                                     // the order in which a packet passes them
	exits := byEnd || slices.Contains(o.session.Hooks, capture.Exit) // or their entries wait for them
	switch {
	case o.session.SlowerThan > capture.MaxRunTime:
		return frame.CheckSlowerThan(o.session.SlowerThan)
	case given("reason-map") && !exits && !o.session.StackDrops:
		return errors.New("--reason-map: only packets that leave a program have its reason: add --rx-capture exit")
	case o.at == capture.AtIngress.String() && len(o.session.Hooks) > 0:
		return errors.New("--at tc: verdicts and run times in --sample and --trigger are those of an XDP program: omit them, or say --at xdp")
	case o.session.GiveWay && len(o.session.Hooks) > 0:
		return errors.New("--give-way: verdicts in --sample and --trigger are those of a program that is traced from the beginning: omit them, or --give-way")
	case o.recorder.atExit == needRunTime && o.session.HookMap != "":
		return errors.New("--trigger slower and --hook: " + noRunTime)
	case o.recorder.atExit != needNothing && o.session.HookMap == "" && !exits:
		return fmt.Errorf("--trigger: only packets that leave a program have a %v: add --rx-capture exit", o.recorder.atExit)
	}
	return nil
}
