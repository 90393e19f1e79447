package tc

// AttachAs attaches in one kind, whatever else the kernel has.
var AttachAs = attachAs
