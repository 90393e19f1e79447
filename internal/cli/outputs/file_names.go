package outputs

// NamesTimes says whether the names of files have the time at which they begin.
func (r *rotationOptions) NamesTimes() bool { return len(r.begins) > 0 || r.Every > 0 }
