// Command image writes a container image of several architectures into one file, an OCI image
// layout in a tar archive, which skopeo, podman and containerd read. It needs neither a daemon nor
// root. The same input gives the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// name is the name of an image that was loaded from the file. In a registry it has another one.
const name = "localhost/xdpcap:latest"

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: image FILE VERSION ARCHITECTURE=ROOT...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write makes the file from roots: each is an architecture and the directory of its files.
func write(path, version string, roots []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("the time of all files, SOURCE_DATE_EPOCH: %w", err)
	}
	made := time.Unix(seconds, 0).UTC()
	index := v1.ImageIndex(empty.Index)
	for _, r := range roots {
		architecture, root, ok := strings.Cut(r, "=")
		if !ok {
			return fmt.Errorf("%s: must be ARCHITECTURE=ROOT", r)
		}
		image, err := imageOf(root, architecture, version, made)
		if err != nil {
			return fmt.Errorf("image for %s: %w", architecture, err)
		}
		platform := v1.Platform{OS: "linux", Architecture: architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}

	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	into, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = into.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": name,
		"io.containerd.image.name":          name, // containerd and Docker look for this one
	}))
	if err != nil {
		return err
	}
	if err := readable(dir); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pack(file, dir, made), file.Close())
}

// readable gives all files and directories the same modes, with any umask.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}

// imageOf makes the image of one architecture: a single layer with the files of a directory.
func imageOf(root, architecture, version string, made time.Time) (v1.Image, error) {
	var files bytes.Buffer
	if err := pack(&files, root, made); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open,
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching) // compressed once, not for its digest and again for its bytes
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: made}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", architecture, v1.Time{Time: made}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/xdpcap"},
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "xdpcap",
			"org.opencontainers.image.description": "Capture packets at the XDP hook",
			"org.opencontainers.image.version":     version,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      "https://github.com/xdpcap/xdpcap",
		},
	}
	return mutate.ConfigFile(image, config)
}
