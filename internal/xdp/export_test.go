package xdp

// This file exports what the tests in package xdp_test need. They are in a package of their own,
// because they import internal/testnet, which imports this one.

var EachLink = eachLink

// NoteFeatures is NoteJoining with other features than those that attaching switches off.
var NoteFeatures = noteFeatures

// SetFeature switches a feature of an interface on or off, and Features returns those that are on.
func SetFeature(name, feature string, on bool) error {
	e, err := openEthtool(name)
	if err != nil {
		return err
	}
	defer e.close()
	return e.set(feature, on)
}

func Features(name string) map[string]bool {
	e, err := openEthtool(name)
	if err != nil {
		return nil
	}
	defer e.close()
	return e.features()
}
