package main

// A row chooses tests of a package.
type row struct {
	pkg   string // its directory
	only  string // "6.1" or "6.12": the other one has the same result, or lacks what the tests need
	tests string // their names, separated by spaces
}

// quick are the tests that `make test` runs in both kernels at once, in less than three minutes:
// each hook, transport and counter command, the verifier, and the privileges. TestChosen accepts at
// most 40.
var quick = []row{
	// The programs' return values, records and counts, and their hooks.
	{pkg: "capture", tests: `TestEveryHook TestSetFilter TestRedirectedByTC TestProgram TestProgramLost TestInstructions TestTransports TestStackDrops`},
	{pkg: "internal/meter", tests: `TestActions TestReasons TestProtocols TestLatencyTraced TestExceptions`},
	{pkg: "internal/drops", tests: `TestLab`},
	{pkg: "filter/ebpf", tests: `TestInlineCalls TestReplace`},
	{pkg: "filter/set", tests: `TestReload`},
	{pkg: "internal/attach", tests: `TestAttachAuto`},
	{pkg: "internal/xdp", tests: `TestHookMapSlot`},
	{pkg: "internal/tc", tests: `TestAttachEgress TestIngress TestKilled`},

	// Captures and tracing.
	{pkg: "internal/systest/commandline", tests: `TestGenericMode`},
	{pkg: "internal/systest/capture", tests: `TestNetworkCard TestHookMap`},
	{pkg: "internal/systest/trace", tests: `TestEntryAndExit TestTailCall TestReplayOfCapture TestReplayOutlet`},

	// The counter commands.
	{pkg: "internal/systest/counters", tests: `TestCountDirections TestLatencyTrace TestMonitor TestReplayMeasure`},
	{pkg: "internal/systest/drops", tests: `TestDrops`},
	{pkg: "internal/systest/counters", only: "6.1", tests: `TestCounterPrograms`},

	// A process's privileges, and how it drops them.
	{pkg: "internal/privilege", tests: `TestEnter`},
	{pkg: "internal/systest/privileges", tests: `TestUnprivileged TestUnprivilegedEgress TestCountersKeepTracing`},
	{pkg: "internal/support", tests: `TestTracingAgrees`},
}

// quickOnARM64 are the tests that depend on the architecture: on the order of loads and stores in a
// ring, the JIT compiler, tracers, the structures that programs and Go share, and the numbers of
// the system calls that a capture gives up. `.ci/run` runs them, and a release all.
var quickOnARM64 = []row{
	{pkg: "capture", tests: `TestTransports TestTracedHead TestProgramHeaders TestProgramLost
		TestProgramSampleFlows TestProgramMaxRate TestProgramFilter`},
	{pkg: "capture/internal/ring", tests: `TestSharedRing TestSharedRingInvalid TestSharedRingShort
		TestSharedRingArm TestSharedRingComplete TestSharedRingPoll TestRingInterrupted
		TestPerfRing TestPerfRingInvalid TestPerfRingCorruptSize TestPerfRingUnchanged`},
	{pkg: "internal/systest/capture", tests: `TestTwoCPUs TestOverload TestStamps`},
	{pkg: "internal/systest/trace", tests: `TestEntryAndExit TestTailCall`},
	{pkg: "internal/systest/privileges", tests: `TestUnprivileged`},
	{pkg: "filter/ebpf", tests: `TestRandomPrograms TestManyHosts`},
	{pkg: "internal/meter", tests: `TestActions TestProtocolsAgreeWithGopacket TestProtocolsTrace TestLatencyTraced
		TestFlowBounds`},
	{pkg: "internal/privilege", tests: `TestEnter TestCalls TestCallArguments`},
}

// more are the tests that `make test-kernels` runs besides quick: all others whose result can
// differ by kernel, and all that need something which many machines lack: fentry, two connected
// network cards, a CPU that can go offline.
var more = []row{
	{pkg: "capture", tests: `TestAlarm TestAlarmUnsure TestSilence TestInterrupted TestImmediate TestFilling
		TestOpenChoosesRingsAgain TestRingsLater TestLossWithoutRing TestLossAtEnd TestSecondSession
		TestBlindFromTheBeginning TestTracedHead TestPacketInsideAtEnd
		TestEntryWithoutExit TestEntryInSeveralBuffers TestSets`},
	{pkg: "capture/internal/ring", tests: `TestRingAlarm TestRingInterrupted TestRingLateCPU
		TestRingExchange TestPerfRing TestPerfTransportCPUs TestSharedRing TestTransportAuto
		TestRingsGone`},
	{pkg: "capture", tests: `TestProgramLongest TestProgramSample TestProgramFirst TestProgramMaxRate
		TestProgramFilter TestProgramHeaders TestProgramHeadersOfAnything TestHeadersOnly
		TestHeadersCostNothing TestCompanions`},
	{pkg: "capture", only: "6.1", tests: `TestProgramSampleFlows TestEntriesInterrupted`},
	{pkg: "capture", only: "6.12", tests: `TestProgramFlowsAgreeWithGopacket TestCard TestCardUnstamped`},
	{pkg: "capture", tests: `TestCardStampsSpareTheClock TestClockIsSet TestLowprecProgram TestLowprecPolls
		TestLowprecOrder`},
	{pkg: "capture", tests: `TestPatterns TestPatternsBothWays TestPatternsFirst TestPatternsTooLate
		TestPatternsBelowOthers TestPastEgress TestPatternsBelowRefused TestBridgeAndPorts TestSlotReused TestAtAuto`},
	{pkg: "capture", tests: `TestStackDropsOfProgram TestStackDropsOfProgramInterrupted TestStackDropsRedirect
		TestStackDropsAbove TestStackDropsIPv6 TestStackDropsOfCards TestStackDropsInterrupted
		TestStackDropsChosen TestStackDropsInner TestStackDropsAfterXDP TestStackDropsFragments
		TestStackDropsWithoutHeader TestStackDropsTagged`},

	{pkg: "filter/ebpf", tests: `FuzzTranslate TestInline TestKernel TestRandomPrograms TestLargePacket TestManyHosts
		TestLongestProgram TestInner`},

	{pkg: "internal/meter", tests: `TestActionQueues TestProtocolsAgreeWithGopacket
		TestFlowBounds TestFlowTraffic TestFlowOverflow TestHotPath TestLongestPath
		TestBucketsInKernel TestRuntime TestLatencyErrors TestProbeCost TestTracersLeave TestEtherTypesAreBounded TestEtherTypesMakeRoom TestActionsMillion
		TestActionsTrace TestProtocolsTrace TestProtocolsMillion TestGone`},
	{pkg: "internal/systest/capture", tests: `TestFragments`},
	{pkg: "internal/replay", tests: `TestReplay TestReplayAgainst TestMeasure TestMeasureChangesLater TestMeasureOwnPackets TestMeasureRefused`},
	{pkg: "internal/meter", tests: `TestCPUMap TestCPUMapVerdicts TestCPUMapFull TestMemDisconnect TestRedirectToDownDevice
		TestRedirectThroughDevmap TestBulkTx TestAttachFailed TestTracepointsRestricted
		TestTracepointsPerCPU TestAbsence TestKernelTracepoints`},

	{pkg: "internal/meter", only: "6.12", tests: `TestCasesMakeRoom TestMemConnect`},

	{pkg: "internal/drops", tests: `TestWay TestWayTraced TestWayOfTCP TestWayAbove TestLossInNamespace TestLossAtXDPElsewhere TestComesBack
		TestLossAbove TestLossWithoutDevice TestLossAtHooks TestRenamed TestFullCPUMap
		TestGenericTx TestFlowsOfLosses TestFlowsOfNoLosses TestFlowsWithoutRoom TestHarmless TestUnknownVLAN
		TestLabOfCards TestSockets TestStackOthers TestFragments
		TestStackFirstNamespace TestStackForgets TestVisibleHere TestCheck TestListeners
		TestRetransmits TestRetransmitsOfOthers TestRetransmitsUnknown`},
	{pkg: "internal/drops/lab", tests: `TestCauses TestCausesOfMachine`},
	{pkg: "internal/drops", only: "6.12", tests: `TestFirewallOut TestLossOfGenericTx`},
	{pkg: "internal/lost", tests: `TestQueues`},
	{pkg: "internal/lost", only: "6.12", tests: `TestQueuesOfCard`},

	{pkg: "internal/attach", tests: `TestRefusedByDriver TestRefusedAsUnsupported TestAttachBusy
		TestCloseBesideCopy TestCheck`},
	{pkg: "internal/xdp", tests: `TestEthernetInterface TestLinksBeingMade TestQueuesOfAnotherNamespace TestHookMapLock
		TestHookWatch TestKernelTypes TestExplainHidden TestAlone TestReasonMap
		TestReasonMapElsewhere TestStub TestTargetArgument TestUse TestHeights
		TestJoining TestAttachRestoresLRO`},
	{pkg: "internal/tc", tests: `TestExplainRefusal TestHasModule TestKindOfKernel TestBesideClsact
		TestBehindFilter TestQdiscStaysForOthers TestQdiscIngress TestTwoAtATime
		TestHandlesTaken TestWithoutPrivileges TestCheck`},
	{pkg: "internal/tc", only: "6.12", tests: `TestBesideTCX TestCloseBesideCopy`},
	{pkg: "internal/support", tests: `TestAll TestTooManyTracers`},
	{pkg: "internal/testnet", tests: `TestGeneratorLosesNothing TestGeneratorNumbersRunOn TestGeneratorsOnTwoCPUs
		TestGeneratorStops TestGeneratorGoesOnAfterSignals TestGeneratorNeedsOnlyGRO
		TestReceiverCopies TestWaitHandled TestPairIndexes TestPairIsSilent
		TestPairAddressesAreReady`},

	// Captures.
	{pkg: "internal/systest/capture", tests: `TestSample TestTwoCPUs TestOverload TestJumbo TestStamps TestSink TestTwoInterfaces
		TestCardRefusals TestListStampTypes TestLowprec TestCPUComesOnline
		TestCPUGoesAndComesBack TestPromiscuous TestFilterSelectsWhatTcpdumpDoes TestVLANAware
		TestFirst TestSampleFlows TestSampleVerdicts`},
	{pkg: "internal/systest/files", tests: `TestInterfaceDeleted TestKilled`},
	{pkg: "internal/systest/commandline", tests: `TestGenericFallback TestProbe TestTracingRefused TestAtTCInstead TestTopTraced`},
	{pkg: "internal/systest/trace", tests: `TestStackBesideCapture TestStackBehindTrace`},
	{pkg: "internal/systest/capture", only: "6.1", tests: `TestClockIsSet TestPromiscuousForbidden TestSomeInterfacesLeave TestDispatcherChanges`},
	{pkg: "internal/systest/capture", only: "6.12", tests: `TestAccountOfEverything TestMaxRate TestCardPackets
		TestDriverLosesProgram TestGenericWithoutTag`},
	{pkg: "internal/systest/files", only: "6.12", tests: `TestMemoryCgroup`},
	{pkg: "internal/systest/commandline", only: "6.12", tests: `TestWithoutJIT TestExtcapVerdicts`},
	{pkg: "internal/systest/capture", tests: `TestDirections TestSent TestSentTag TestDirectionFilter TestDirectionsBesideProgram
		TestKilledAtEgress TestEgressLeaves TestUnfinishedChecksums`},
	{pkg: "internal/systest/capture", tests: `TestGiveWay TestGiveWayToOthersOnly TestAnyAbove TestOrdinaryTraffic TestPatternsTraced TestOwnProgramLeaves
		TestTracedProgramLeaves TestDispatcherHidden TestHookMapSlotTaken TestHookMapOwnerLeaves
		TestHookMapErrors TestHookMapInUse TestHookMapVerdictThenSampling TestHookMapOwners
		TestHookMapElsewhere`},

	// Tracing.
	{pkg: "internal/systest/trace", tests: `TestMapPrograms TestTraceChoices TestPairs TestTraceKilled TestDispatcher TestLoader
		TestReplacedMain TestTraceAnotherXdpcap TestOutlet TestSlowerThan TestSlowerTrigger
		TestReasonMap TestReasonsChosen TestImagesByVerdict
		TestImagesNested`},
	{pkg: "internal/systest/read", tests: `TestFollowTraced`},
	{pkg: "internal/systest/streams", tests: `TestSFlowDiscards`},
	{pkg: "internal/systest/trace", tests: `TestFunction TestFunctionErrors TestAtTC TestAtTCErrors TestAtTCLeaves
		TestTailCallAtTC`},
	{pkg: "internal/systest/trace", only: "6.1", tests: `TestTraceOneOfSeveral TestVerdictThenSampling`},
	{pkg: "internal/systest/trace", only: "6.12", tests: `TestTraceBond TestDispatcherFirst TestDispatcherOfOne TestReasonMapMistakes`},

	// Counters and drops.
	{pkg: "internal/systest/counters", tests: `TestCountFilter TestFlowVerdicts TestStatsSideBySide TestLatencyKernelStats`},
	{pkg: "internal/systest/trace", tests: `TestStatsByReason`},
	{pkg: "internal/systest/capture", tests: `TestCompanionsAgree TestCompanionsSeeAll TestCompanionsOfTraced
		TestCompanionsOfOneProgram`},
	{pkg: "internal/systest/counters", only: "6.1", tests: `TestCountersFollow TestCountersInterfaceGone TestMonitorRecord`},
	{pkg: "internal/systest/counters", only: "6.12", tests: `TestCountersDispatcherChanges TestMonitorFollows TestSeveralInterfaces
		TestDriverLosesCounter`},
	{pkg: "internal/systest/trace", tests: `TestReasonMapOfDrops`},
	{pkg: "internal/systest/drops", tests: `TestStackDrops TestStackDropsAny TestStackDropsTraced TestDropsCheck`},

	// Privileges.
	{pkg: "internal/systest/privileges", tests: `TestInside TestInsideRead TestCountersKeepEgress TestCapabilities TestLimits`},
	{pkg: "internal/systest/commandline", tests: `TestMissingPrivileges`},
}
