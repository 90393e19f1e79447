package capture

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/sflow"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// check finds mistakes in the flags, and completes the options, before anything is opened or
// attached.
func (o *Options) check(flags *pflag.FlagSet) (err error) {
	given := flags.Changed
	if given("skip") {
		return errors.New("--skip is for -r: capture all packets, and omit the first ones with xdpcap read --skip")
	}
	if err := o.ReadTargets(given); err != nil {
		return err
	}
	if (given("pod") || o.follows()) && !given("at") && !slices.ContainsFunc(pastXDP, given) {
		o.at = capture.AtAuto.String() // at XDP the peer of a veth has no TSO, and packets that tc redirects to a pod are missing
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

// checkWords parses flags whose values are words.
func (o *Options) checkWords(given func(flag string) bool) (err error) {
	if o.session.At, err = capture.ParseAt(o.at); err != nil {
		return fmt.Errorf("--at: %w", err)
	}
	if o.session.Mode, err = capture.ParseMode(o.mode); err != nil {
		return fmt.Errorf("--xdp-mode: %w", err)
	}
	if o.session.Verdicts, o.session.TCVerdicts, err = frame.ParseVerdicts(o.verdictNames); err != nil {
		return err
	}
	if len(o.session.Verdicts) == 0 && len(o.session.TCVerdicts) > 0 && !given("program") {
		return fmt.Errorf("--verdict %s: only programs at tc return that: choose one with --program NAME or ID", strings.Join(o.verdictNames, ","))
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

// explainNoProgram adds to the error that no XDP program runs which given flags need one.
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
	if slices.Equal(need, []string{"--trigger"}) {
		return fmt.Errorf("%v: choose a filter as --trigger, or omit it and send SIGUSR2; or see where a program runs: %s", err, o.Process.ListInterfaces())
	}
	slices.Sort(need)
	return fmt.Errorf("%v: omit %s to capture at its XDP hook, or see where a program runs: %s", err, strings.Join(need, ", "), o.Process.ListInterfaces())
}

// withoutTracing returns another way to the result that the flags request, for frame.Untraced.
func (o *Options) withoutTracing() string {
	switch {
	case o.session.SlowerThan > 0 || o.recorder.atExit == needRunTime:
		return frame.HowLong
	case o.recorder.atExit == needVerdict:
		return "choose a filter as --trigger, with --at tc; how many are dropped: xdpcap drops -i IF"
	case len(o.verdictNames) > 0:
		return frame.WhichPackets(o.verdictNames)
	case slices.Contains(o.session.Hooks, capture.Exit):
		return frame.WhichPackets(nil)
	case o.account:
		return frame.PassedAndDropped
	}
	return "--at tc captures what it passes, -Q out what is sent, --drops what the stack drops; " + frame.WhichPackets(nil)
}

// checkHooks parses --rx-capture, and refuses flags about facts that packets do not have at these
// hooks.
func (o *Options) checkHooks(given func(flag string) bool) error {
	// Only at its exit a packet has a verdict, a reason and a run time, and its bytes as it leaves
	// the program. choosesByExit: packets are chosen by these, and entries then wait for their
	// exits.
	choosesByExit := given("verdict") || given("slower-than") || o.sample.verdicts != nil || given("reason") && !o.session.StackDrops
	needsExit := choosesByExit || given("reason-map") && !o.session.StackDrops || o.filterAt == "exit" || o.recorder.atExit != needNothing
	if needsExit && !given("rx-capture") && o.session.HookMap == "" {
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
	slices.Sort(o.session.Hooks) // the order in which a packet passes them
	exits := choosesByExit || slices.Contains(o.session.Hooks, capture.Exit)
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

// bothWays matches words of a filter for both directions, and oneWay words for one.
var (
	bothWays = regexp.MustCompile(`\b(host|net|port|portrange)\b`)
	oneWay   = regexp.MustCompile(`\b(src|dst|inbound|outbound)\b`)
)

// checkDirection parses -Q, and refuses flags about facts that sent packets do not have.
func (o *Options) checkDirection(given func(flag string) bool) (err error) {
	byDefault := !given("direction") && !hasHookMap(o) && !o.session.StackDrops && !o.session.Sink && len(o.verdictNames) == 0
	o.halfSeen = byDefault && bothWays.MatchString(o.filter.Text) && !oneWay.MatchString(o.filter.Text)
	if o.session.Direction, err = capture.ParseDirection(strings.ToLower(o.directionName)); err != nil {
		return fmt.Errorf("-Q: %w", err)
	}
	if o.session.Direction != capture.Out {
		return nil
	}
	if o.sample.verdicts != nil {
		return fmt.Errorf("-Q out and --sample %s: sent packets have no verdict: say -Q inout for those of received packets", &o.sample)
	}
	if o.recorder.atExit != needNothing {
		return fmt.Errorf("-Q out and --trigger: sent packets have no %v: say -Q inout for those of received packets", o.recorder.atExit)
	}
	return nil
}

// checkSFlow reads the agent's address, and sets how many bytes of a packet are in a sample: with
// -s as many as there. If samples are the only output, the session keeps no more bytes than they
// have.
func (o *Options) checkSFlow(given func(flag string) bool) error {
	if !sendsSFlow(o) {
		return nil
	}
	if given("sflow-agent") {
		if err := o.SFlow.ReadAgent(); err != nil {
			return err
		}
	}
	isOther := func(t outputs.Target) bool { return t.URL == nil || t.URL.Scheme != outputs.SFlowScheme }
	switch {
	case o.snapLen.headers:
		o.SFlow.Header = sflow.DefaultHeader + int(o.snapLen.payload)
	case given("snapshot-length"):
		o.SFlow.Header = int(o.snapLen.Bytes)
	case !o.Print && o.Live.Serve == "" && !slices.ContainsFunc(o.Targets, isOther):
		o.snapLen.Bytes = sflow.DefaultHeader
	}
	return nil
}

// completeReason offers the reasons of this kernel.
func completeReason(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	names, err := capture.Reasons()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return frame.CompleteList(names...)(cmd, args, word)
}

// checkStackDrops refuses --reason and --trigger reason without --drops, and flags about facts that
// packets with --drops do not have.
func (o *Options) checkStackDrops(given func(flag string) bool) error {
	if given("reason") && len(o.session.Reasons) == 0 {
		return errors.New("--reason: the list is empty")
	}
	if !o.session.StackDrops {
		if o.recorder.needsReason {
			return errors.New("--trigger reason is about packets that the stack throws away: add --drops")
		}
		return nil
	}
	switch {
	case given("reason") && given("reason-map"):
		return errors.New("--reason and --reason-map: --reason keeps no packet that an XDP program drops: omit one of them")
	case o.sample.verdicts != nil:
		return fmt.Errorf("--drops and --sample %s: packets that the stack throws away have no verdict", &o.sample)
	case o.recorder.atExit != needNothing:
		return fmt.Errorf("--drops and --trigger: packets that the stack throws away have no %v", o.recorder.atExit)
	case o.session.Stamp.IsCards():
		return fmt.Errorf("--drops and -j %v: the stack does not know the card's stamps", o.session.Stamp)
	}
	return nil
}
