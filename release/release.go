package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// What the packages say of us.
const (
	programName = "dragoman"
	summary     = "Any MCP client, any MCP server, any transport, any protocol revision"
	homepage    = "https://github.com/dragoman-mcp/dragoman"
	licenceID   = "Apache-2.0"
	sumsName    = "SHA256SUMS"
	manual      = "man/" // before the names of the pages of the manual
)

// A platform is a system for which there is a release.
type platform struct {
	os, arch string // as Go calls them
	npm      string // as Node calls them, with a dash between
	wheel    string // as Python calls them
}

// platforms are all that there may be. The program is static, so that every Linux will do.
// Go needs macOS 12.
var platforms = []platform{
	{"linux", "amd64", "linux-x64", "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64"},
	{"linux", "arm64", "linux-arm64", "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64"},
	{"darwin", "amd64", "darwin-x64", "macosx_12_0_x86_64"},
	{"darwin", "arm64", "darwin-arm64", "macosx_12_0_arm64"},
	{"windows", "amd64", "win32-x64", "win_amd64"},
	{"windows", "arm64", "win32-arm64", "win_arm64"},
}

func platformNamed(name string) (platform, error) {
	for _, p := range platforms {
		if p.String() == name {
			return p, nil
		}
	}
	return platform{}, fmt.Errorf("there is no platform %q: name some of %v", name, platforms)
}

func platformsNamed(names []string) ([]platform, error) {
	var all []platform
	for _, name := range names {
		p, err := platformNamed(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (p platform) String() string { return p.os + "/" + p.arch }

// file returns the name of the program there.
func (p platform) file() string {
	if p.os == "windows" {
		return programName + ".exe"
	}
	return programName
}

// A release is what is made of one tree.
type release struct {
	version   version
	time      time.Time
	out       string // where it is made
	platforms []platform

	// pure leaves out what is made by the programs of tools/packages: deb and rpm packages,
	// and the image.
	pure bool

	work  string // for what is removed at the end
	files []string
	sums  map[string]string // of files, by name
}

// A build is the program for one platform, and what goes with it.
type build struct {
	platform
	program []byte
	notices []byte // licences of its parts
	bill    []byte // its parts
}

// all makes everything and returns the paths of the files.
func (r *release) all(ctx context.Context) (files []string, err error) {
	if r.work, err = os.MkdirTemp("", "dragoman-release-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	var builds []*build
	for _, p := range r.platforms {
		b, err := r.build(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		builds = append(builds, b)
	}
	program, err := r.goBuild(ctx, platform{os: runtime.GOOS, arch: runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	texts, err := r.textsOf(ctx, program)
	if err != nil {
		return nil, err
	}
	err = r.publish(ctx, builds, texts)
	return r.files, err
}

// publish writes what there is to install of these programs, with texts for shells and man.
func (r *release) publish(ctx context.Context, builds []*build, texts []entry) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // it is for everybody
		return err
	}
	r.sums = map[string]string{}
	for _, b := range builds {
		err := errors.Join(r.write(r.archiveName(b.platform)+".cdx.json", b.bill), r.archive(b, texts), r.npmProgram(b), r.wheel(b))
		if err == nil && b.os == "linux" && !r.pure {
			err = r.packages(ctx, b, texts)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
	}
	err := errors.Join(r.npmWrapper(), r.formula())
	if err == nil && !r.pure {
		err = r.image(ctx, builds)
	}
	if err != nil {
		return err
	}
	return r.writeSums()
}

// build builds the program for one platform.
func (r *release) build(ctx context.Context, p platform) (*build, error) {
	file, err := r.goBuild(ctx, p)
	if err != nil {
		return nil, err
	}
	b := &build{platform: p}
	if b.bill, err = billOf(ctx, file); err != nil {
		return nil, err
	}
	if b.notices, err = noticesOf(ctx, file); err != nil {
		return nil, err
	}
	if b.program, err = os.ReadFile(file); err != nil { //nolint:gosec // what was built
		return nil, err
	}
	return b, nil
}

// goBuild returns the path of the program for one platform.
func (r *release) goBuild(ctx context.Context, p platform) (string, error) {
	file := filepath.Join(r.work, p.os+"-"+p.arch, p.file())
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-pgo=auto", //nolint:gosec // our own
		"-ldflags=-s -w -X github.com/dragoman-mcp/dragoman/internal/cli/term.version="+r.version.String(), "-o", file, "./cmd/dragoman")
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
}

// textsOf returns what shells read to complete our command lines, and the manual, as the
// program writes them.
func (r *release) textsOf(ctx context.Context, program string) ([]entry, error) {
	var list []entry
	for _, s := range [][2]string{{"bash", "dragoman.bash"}, {"zsh", "_dragoman"}, {"fish", "dragoman.fish"}, {"powershell", "dragoman.ps1"}} {
		text, err := exec.CommandContext(ctx, program, "completion", s[0]).Output() //nolint:gosec // ours
		if err != nil {
			return nil, fmt.Errorf("dragoman completion %s: %w", s[0], err)
		}
		list = append(list, entry{name: "completions/" + s[1], mode: 0o644, text: text})
	}
	dir := filepath.Join(r.work, "man")
	if out, err := exec.CommandContext(ctx, program, "manual", dir).CombinedOutput(); err != nil { //nolint:gosec // ours
		return nil, fmt.Errorf("dragoman manual: %w\n%s", err, out)
	}
	pages, err := os.ReadDir(dir) // in the order of their names
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		e, err := fromTree(filepath.Join(dir, page.Name()), manual+page.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// write writes a file of the release.
func (r *release) write(name string, text []byte) error {
	path := filepath.Join(r.out, name)
	sum := sha256.Sum256(text)
	r.sums[name] = hex.EncodeToString(sum[:])
	r.files = append(r.files, path)
	return os.WriteFile(path, text, 0o644) //nolint:gosec // it is for everybody
}

// writeSums writes the sums of all files, for sha256sum -c.
func (r *release) writeSums() error {
	var lines []string
	for name, sum := range r.sums {
		lines = append(lines, sum+"  "+name+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[64:], b[64:]) })
	return r.write(sumsName, []byte(strings.Join(lines, "")))
}
