package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// An entry is a file of an archive, or a directory if its name ends in a slash.
type entry struct {
	name string
	mode fs.FileMode
	text []byte
	uid  int // and gid
}

// below returns the entries in a directory.
func below(dir string, list ...entry) []entry {
	moved := make([]entry, len(list))
	for i, e := range list {
		moved[i] = e
		moved[i].name = dir + "/" + e.name
	}
	return moved
}

// fromTree returns a file of our sources as an entry.
func fromTree(path, name string) (entry, error) {
	text, err := os.ReadFile(path) //nolint:gosec // our own
	return entry{name: name, mode: 0o644, text: text}, err
}

// tarOf returns an archive with these entries, in their order, all of one time.
func tarOf(list []entry, made time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), Size: int64(len(e.text)), ModTime: made, Typeflag: tar.TypeReg, Uid: e.uid, Gid: e.uid, Format: tar.FormatPAX}
		if e.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if e.name[len(e.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// gzipOf compresses, without a name and a time.
func gzipOf(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

func tarGzipOf(list []entry, made time.Time) ([]byte, error) {
	text, err := tarOf(list, made)
	if err != nil {
		return nil, err
	}
	return gzipOf(text)
}

// zipOf returns a zip file with these entries, in their order, all of one time.
func zipOf(list []entry, made time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: made}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func (r *release) archiveName(p platform) string {
	return fmt.Sprintf("%s_%s_%s_%s", programName, r.version, p.os, p.arch)
}

// licences returns the texts that go with every program.
func (b *build) licences() ([]entry, error) {
	own, err := fromTree("LICENSE", "LICENSE")
	return []entry{own, {name: "THIRD-PARTY-LICENSES", mode: 0o644, text: b.notices}}, err
}

// archive makes what one downloads and unpacks.
func (r *release) archive(b *build, texts []entry) error {
	list, err := b.licences()
	if err != nil {
		return err
	}
	changes, err := fromTree("CHANGELOG.md", "CHANGELOG.md")
	if err != nil {
		return err
	}
	list = append([]entry{{name: b.file(), mode: 0o755, text: b.program}, changes}, append(list, texts...)...)
	pack, ext := tarGzipOf, ".tar.gz"
	if b.os == "windows" {
		pack, ext = zipOf, ".zip"
	}
	name := r.archiveName(b.platform)
	text, err := pack(below(name, list...), r.time)
	if err != nil {
		return err
	}
	return r.write(name+ext, text)
}
