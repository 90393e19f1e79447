package cli

// The objects that --json prints, for packages that decode them.
type (
	Summary       = summary
	SourceSummary = sourceSummary
)
