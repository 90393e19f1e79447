package tc

// AttachAs attaches in one kind, whatever else the kernel has.
var AttachAs = attachAs

// Number is the number by which a handle is claimed.
var Number = number
