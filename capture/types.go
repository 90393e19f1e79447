package capture

import "github.com/xdpcap/xdpcap/capture/packet"

// The types of package packet, under their names in package capture.
type (
	Packet      = packet.Packet
	Facts       = packet.Facts
	Reason      = packet.Reason
	Location    = packet.Location
	Outlet      = packet.Outlet
	HashKind    = packet.HashKind
	Stored      = packet.Stored
	StoredBlock = packet.StoredBlock
	Source      = packet.Source
	Hook        = packet.Hook
	Program     = packet.Program
	Pod         = packet.Pod
	Mode        = packet.Mode
	Direction   = packet.Direction
	Verdict     = packet.Verdict
	VerdictKind = packet.VerdictKind
	TargetPlace = packet.TargetPlace
	Account     = packet.Account
	Accounts    = packet.Accounts
	Loss        = packet.Loss
	LossCause   = packet.LossCause
)

// The values of a [Hook].
const (
	XDP            = packet.XDP
	Entry          = packet.Entry
	Exit           = packet.Exit
	TailCall       = packet.TailCall
	Ingress        = packet.Ingress
	Egress         = packet.Egress
	StackDrop      = packet.StackDrop
	FailedRedirect = packet.FailedRedirect
	UnknownHook    = packet.UnknownHook
)

// The values of a [TargetPlace] besides AtXDP, which is also one of an [At].
const (
	AtTCIngress = packet.AtTCIngress
	AtTCEgress  = packet.AtTCEgress
	AtTC        = packet.AtTC
)

// The values of a [Mode], a [Direction], a [Verdict], a [VerdictKind] and a [HashKind].
const (
	Auto, Native, Generic             = packet.Auto, packet.Native, packet.Generic
	In, Out, InOut                    = packet.In, packet.Out, packet.InOut
	Aborted, Drop, Pass, Tx, Redirect = packet.Aborted, packet.Drop, packet.Pass, packet.Tx, packet.Redirect
	XDPVerdict, TCVerdict             = packet.XDPVerdict, packet.TCVerdict
	PlainNumber                       = packet.PlainNumber
	NoHash, SoftwareHash              = packet.NoHash, packet.SoftwareHash
	CardHash, ToeplitzHash            = packet.CardHash, packet.ToeplitzHash
)

// The values of a [LossCause].
const (
	Burst, SmallRings      = packet.Burst, packet.SmallRings
	SlowReader, SlowOutput = packet.SlowReader, packet.SlowOutput
)

// EnoughTime is how long a ring of [Loss].Enough bytes holds out at SmallRings.
const EnoughTime = packet.EnoughTime

// MaxRunTime is the longest Facts.RunTime. A packet for which the program ran longer has it, too.
const MaxRunTime = packet.MaxRunTime

// ParseHook reads the name of a hook that a user can choose: "entry" or "exit".
func ParseHook(s string) (Hook, error) { return packet.ParseHook(s) }

// ParseMode reads the name of a mode: "auto", "native" or "generic".
func ParseMode(s string) (Mode, error) { return packet.ParseMode(s) }

// ParseDirection reads a direction's name: "in", "out" or "inout".
func ParseDirection(s string) (Direction, error) { return packet.ParseDirection(s) }

// ParseVerdict reads a verdict's name, such as "drop" or "XDP_DROP", or its number.
func ParseVerdict(s string) (Verdict, error) { return packet.ParseVerdict(s) }

// TCVerdictNames are the names of the kernel's verdicts at tc: those of TC_ACT_OK and the like, in
// lower case.
func TCVerdictNames() []string { return packet.TCVerdictNames() }

// ParseTCVerdict reads the name of a verdict at tc, such as "shot" or "TC_ACT_SHOT", or its number.
func ParseTCVerdict(s string) (Verdict, error) { return packet.ParseTCVerdict(s) }

// ParseLabel is the reverse of [Source.Label]: it splits eth0, eth0@egress or eth0:program@fentry
// into name, hook and target. The hook is UnknownHook if the label names none.
func ParseLabel(label string) Source { return packet.ParseLabel(label) }

// ParsePod finds the pod in a description that [Source.Description] returned. It returns the zero
// Pod if the description names none.
func ParsePod(description string) Pod { return packet.ParsePod(description) }
