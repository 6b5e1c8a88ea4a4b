package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"time"
)

// Media types of an OCI image.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// imageUser is who the program is in its image: nobody that has rights outside.
const imageUser = 65532

// imageHome is where the program may write in its image.
const imageHome = "/var/lib/dragoman"

// A descriptor names a blob of an image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A layout is an image as files, by the OCI image layout.
type layout struct {
	files []entry
	made  time.Time
}

// image makes an image for every Linux that was built, as the Dockerfile's last stage
// would: the program, the certificates of public authorities, and a user.
func (r *release) image(ctx context.Context, builds []*build) error {
	roots, err := r.tool(ctx, "run", "-C", pinned, "./roots")
	if err != nil {
		return err
	}
	l := &layout{made: r.time, files: []entry{
		{name: "oci-layout", mode: 0o644, text: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755},
	}}
	var list []descriptor
	for _, b := range builds {
		if b.os != "linux" {
			continue
		}
		d, err := l.add(b, roots, r.labels())
		if err != nil {
			return err
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil
	}
	all, err := l.blob(typeIndex, map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": list})
	if err != nil {
		return err
	}
	// What is loaded is called by the one in Podman, by the other in Docker.
	name := programName + ":" + r.version.String()
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": name, "io.containerd.image.name": "docker.io/library/" + name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{all}})
	if err != nil {
		return err
	}
	l.files = append(l.files, entry{name: "index.json", mode: 0o644, text: index})
	text, err := tarOf(l.files, r.time)
	if err != nil {
		return err
	}
	return r.write(programName+"_"+r.version.String()+"_oci.tar", text)
}

// labels say what an image is.
func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title": programName, "org.opencontainers.image.description": summary,
		"org.opencontainers.image.source": homepage, "org.opencontainers.image.licenses": licenceID, "org.opencontainers.image.version": r.version.String(),
	}
}

// rootOf returns the files of the image.
func rootOf(b *build, roots []byte) ([]entry, error) {
	licences, err := b.licences()
	if err != nil {
		return nil, err
	}
	dir := func(name string) entry { return entry{name: name, mode: 0o755} }
	list := []entry{
		dir("etc/"), dir("etc/dragoman/"), dir("etc/ssl/"), dir("etc/ssl/certs/"),
		{name: "etc/group", mode: 0o644, text: []byte("root:x:0:\ndragoman:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, text: []byte("root:x:0:0::/:/sbin/nologin\ndragoman:x:65532:65532::" + imageHome + ":/sbin/nologin\n")},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: roots},
		{name: "tmp/", mode: 0o777 | fs.ModeSticky},
		dir("usr/"), dir("usr/bin/"),
		{name: "usr/bin/dragoman", mode: 0o755, text: b.program},
		dir("usr/share/"), dir("usr/share/doc/"), dir("usr/share/doc/dragoman/"),
	}
	list = append(list, below("usr/share/doc/dragoman", licences...)...)
	return append(list, dir("var/"), dir("var/lib/"), entry{name: imageHome[1:] + "/", mode: 0o700, uid: imageUser}), nil
}

// add adds the image for one platform.
func (l *layout) add(b *build, roots []byte, labels map[string]string) (d descriptor, err error) {
	list, err := rootOf(b, roots)
	if err != nil {
		return d, err
	}
	plain, err := tarOf(list, l.made)
	if err != nil {
		return d, err
	}
	packed, err := gzipOf(plain)
	if err != nil {
		return d, err
	}
	layer := l.bytes(typeLayer, packed)
	config, err := l.blob(typeConfig, map[string]any{
		"created": l.made, "architecture": b.arch, "os": b.os,
		"config": map[string]any{
			"User": "65532:65532", "Entrypoint": []string{"/usr/bin/dragoman"}, "Cmd": []string{"serve", "/etc/dragoman/dragoman.yaml"},
			"Env": []string{"PATH=/usr/bin", "HOME=" + imageHome}, "WorkingDir": imageHome,
			"ExposedPorts": map[string]any{"8808/tcp": struct{}{}}, "Labels": labels,
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(plain)}},
		"history": []any{map[string]any{"created": l.made, "created_by": "make release"}},
	})
	if err != nil {
		return d, err
	}
	d, err = l.blob(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{layer}})
	d.Platform = map[string]string{"os": b.os, "architecture": b.arch}
	return d, err
}

// blob adds a value as JSON.
func (l *layout) blob(kind string, value any) (descriptor, error) {
	text, err := json.Marshal(value)
	return l.bytes(kind, text), err
}

func (l *layout) bytes(kind string, text []byte) descriptor {
	sum := digest(text)
	l.files = append(l.files, entry{name: "blobs/sha256/" + sum[len("sha256:"):], mode: 0o644, text: text})
	return descriptor{MediaType: kind, Digest: sum, Size: len(text)}
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
