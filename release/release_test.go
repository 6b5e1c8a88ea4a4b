package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

// testVersion is one that has everything that can be in one.
var testVersion = version{number: "1.2.3", pre: "rc.4", commits: "5", commit: "abcdef012345"}

// made is the release that most tests look at.
var made struct {
	once sync.Once
	dir  string
	err  error
}

// testPlatforms are one of each kind.
var testPlatforms = []string{"linux/amd64", "darwin/arm64", "windows/arm64"}

// programText stands for the program: what is in it does not matter here.
func programText(p string) []byte { return bytes.Repeat([]byte("the program for "+p+"\n"), 1000) }

// publish makes a release of programs that are not built. make release builds them, and
// interop installs what it has made.
func publish(t *testing.T, dir string, pure bool) error {
	t.Helper()
	r := &release{version: testVersion, time: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), out: dir, pure: pure, work: t.TempDir()}
	var builds []*build
	for _, name := range testPlatforms {
		p, err := platformNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		r.platforms = append(r.platforms, p)
		builds = append(builds, &build{platform: p, program: programText(name), notices: []byte("notices"), bill: []byte("{}")})
	}
	texts := []entry{{name: "man/dragoman.1", mode: 0o644, text: []byte("a page")}}
	for _, name := range []string{"dragoman.bash", "_dragoman", "dragoman.fish", "dragoman.ps1"} {
		texts = append(texts, entry{name: "completions/" + name, mode: 0o644, text: []byte("for a shell")})
	}
	return r.publish(t.Context(), builds, texts)
}

// file returns a file of the release by its name.
func file(t *testing.T, name string) []byte {
	t.Helper()
	made.once.Do(func() {
		if made.dir, made.err = os.MkdirTemp("", "dragoman-dist-"); made.err == nil {
			made.err = publish(t, made.dir, true)
		}
	})
	if made.err != nil {
		t.Fatal(made.err)
	}
	text, err := os.ReadFile(filepath.Join(made.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An unpacked archive has its files by name.
type unpacked map[string]entry

func readTarGzip(t *testing.T, text []byte) unpacked {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return readTar(t, plain)
}

func readTar(t *testing.T, r io.Reader) unpacked {
	t.Helper()
	list := unpacked{}
	for a := tar.NewReader(r); ; {
		h, err := a.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a)
		if err != nil {
			t.Fatal(err)
		}
		list[h.Name] = entry{name: h.Name, mode: h.FileInfo().Mode(), text: text, uid: h.Uid}
	}
}

func readZip(t *testing.T, text []byte) unpacked {
	t.Helper()
	a, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	list := unpacked{}
	for _, f := range a.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list[f.Name] = entry{name: f.Name, mode: f.Mode(), text: text}
	}
	return list
}

// isProgram checks that a file is there, is the program, and may be run.
func (u unpacked) isProgram(t *testing.T, name, platform string) {
	t.Helper()
	if e := u[name]; !bytes.Equal(e.text, programText(platform)) || e.mode.Perm() != 0o755 {
		t.Errorf("%s has %d bytes and the mode %v; there are %q", name, len(e.text), e.mode, slices.Sorted(maps.Keys(u)))
	}
}

// hasTexts checks that files are there and have something in them that everybody can read.
func (u unpacked) hasTexts(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if e := u[name]; len(e.text) == 0 || e.mode.Perm() != 0o644 {
			t.Errorf("%s has %d bytes and the mode %v; there are %q", name, len(e.text), e.mode, slices.Sorted(maps.Keys(u)))
		}
	}
}

func TestArchivesHaveTheProgramAndWhatGoesWithIt(t *testing.T) {
	for _, name := range testPlatforms {
		base := "dragoman_1.2.3-rc.4.dev.5.gabcdef012345_" + strings.ReplaceAll(name, "/", "_")
		program, ext, read := "/dragoman", ".tar.gz", readTarGzip
		if strings.HasPrefix(name, "windows") {
			program, ext, read = "/dragoman.exe", ".zip", readZip
		}
		list := read(t, file(t, base+ext))
		list.isProgram(t, base+program, name)
		list.hasTexts(t, base+"/LICENSE", base+"/THIRD-PARTY-LICENSES", base+"/CHANGELOG.md", base+"/man/dragoman.1",
			base+"/completions/dragoman.bash", base+"/completions/_dragoman", base+"/completions/dragoman.fish", base+"/completions/dragoman.ps1")
	}
}

func TestProgramGivesItsNoticesCompletionsAndManual(t *testing.T) {
	notices, err := noticesOf(t.Context(), gatewaytest.Binary(t))
	if err != nil || !bytes.Contains(notices, []byte("github.com/coder/websocket v")) || !bytes.Contains(notices, []byte("The Go Authors")) {
		t.Errorf("the licences of others are\n%s%v", notices, err)
	}
	texts, err := (&release{work: t.TempDir()}).textsOf(t.Context(), gatewaytest.Binary(t))
	if err != nil || len(texts) < 10 || !bytes.Contains(texts[0].text, []byte("__start_dragoman")) || !slices.ContainsFunc(texts, func(f entry) bool { return f.name == "man/dragoman-audit-show.1" }) {
		t.Errorf("there are %d texts, %v", len(texts), err)
	}
}

func TestSumsAreOfEveryFile(t *testing.T) {
	sums := string(file(t, sumsName))
	list, err := os.ReadDir(made.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Name() == sumsName {
			continue
		}
		sum := sha256.Sum256(file(t, e.Name()))
		if !strings.Contains(sums, hex.EncodeToString(sum[:])+"  "+e.Name()+"\n") {
			t.Errorf("%s does not have the right sum in\n%s", e.Name(), sums)
		}
	}
	if n := strings.Count(sums, "\n"); n != len(list)-1 || n < 12 {
		t.Errorf("there are %d sums of %d files", n, len(list)-1)
	}
}

func TestTwoReleasesOfOneTreeAreTheSame(t *testing.T) {
	want := string(file(t, sumsName))
	dir := t.TempDir()
	if err := publish(t, dir, true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil || string(got) != want {
		t.Errorf("the sums are\n%s%v\nand were\n%s", got, err, want)
	}
}

func TestNpmPackagesNameEachOther(t *testing.T) {
	const v = "1.2.3-rc.4.dev.5.gabcdef012345"
	wrapper := readTarGzip(t, file(t, "dragoman-"+v+".tgz"))
	wrapper.hasTexts(t, "package/LICENSE", "package/README.md")
	if e := wrapper["package/bin/dragoman.js"]; !bytes.HasPrefix(e.text, []byte("#!/usr/bin/env node\n")) || e.mode.Perm() != 0o755 {
		t.Errorf("the script is %v %s", e.mode, e.text)
	}
	var m manifest
	if err := json.Unmarshal(wrapper["package/package.json"].text, &m); err != nil {
		t.Fatal(err)
	}
	if m.Name != "dragoman" || m.Version != v || m.Bin["dragoman"] != "bin/dragoman.js" || len(m.Optional) != 3 || len(m.OS) != 0 {
		t.Errorf("the package says %+v", m)
	}
	if bytes.Contains(wrapper["package/package.json"].text, []byte("install")) {
		t.Error("the package runs something when it is installed")
	}
	for name, want := range map[string][4]string{
		"linux-x64":    {"linux", "x64", "dragoman", "linux/amd64"},
		"darwin-arm64": {"darwin", "arm64", "dragoman", "darwin/arm64"},
		"win32-arm64":  {"win32", "arm64", "dragoman.exe", "windows/arm64"},
	} {
		program := readTarGzip(t, file(t, "dragoman-mcp-"+name+"-"+v+".tgz"))
		program.isProgram(t, "package/bin/"+want[2], want[3])
		program.hasTexts(t, "package/LICENSE", "package/THIRD-PARTY-LICENSES", "package/README.md")
		var own manifest
		if err := json.Unmarshal(program["package/package.json"].text, &own); err != nil {
			t.Fatal(err)
		}
		if m.Optional[own.Name] != own.Version || own.Version != v || !slices.Equal(own.OS, want[:1]) || !slices.Equal(own.CPU, want[1:2]) {
			t.Errorf("%s says %+v", name, own)
		}
	}
}

func TestWheelsListTheirFilesWithSums(t *testing.T) {
	const base = "dragoman-1.2.3rc4.post5+gabcdef012345"
	for tags, want := range map[string][2]string{
		"manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64": {"dragoman", "linux/amd64"},
		"macosx_12_0_arm64": {"dragoman", "darwin/arm64"},
		"win_arm64":         {"dragoman.exe", "windows/arm64"},
	} {
		list := readZip(t, file(t, base+"-py3-none-"+tags+".whl"))
		list.isProgram(t, base+".data/scripts/"+want[0], want[1])
		info := base + ".dist-info/"
		list.hasTexts(t, info+"licenses/LICENSE", info+"licenses/THIRD-PARTY-LICENSES", info+"METADATA", info+"WHEEL", info+"RECORD")
		if text := string(list[info+"METADATA"].text); !strings.Contains(text, "\nName: dragoman\nVersion: 1.2.3rc4.post5+gabcdef012345\n") {
			t.Errorf("METADATA is\n%s", text)
		}
		for tag := range strings.SplitSeq(tags, ".") {
			if text := string(list[info+"WHEEL"].text); !strings.Contains(text, "\nTag: py3-none-"+tag+"\n") {
				t.Errorf("WHEEL does not have %s:\n%s", tag, text)
			}
		}
		record := string(list[info+"RECORD"].text)
		for name, e := range list {
			sum := sha256.Sum256(e.text)
			line := name + ",sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]) + ","
			if name == info+"RECORD" {
				line = name + ",,\n"
			}
			if !strings.Contains(record, line) {
				t.Errorf("RECORD has no %s:\n%s", line, record)
			}
		}
	}
}

func TestFormulaHasTheSumsOfTheArchives(t *testing.T) {
	text := string(file(t, "dragoman.rb"))
	for _, name := range []string{"linux_amd64", "darwin_arm64"} {
		archive := "dragoman_1.2.3-rc.4.dev.5.gabcdef012345_" + name + ".tar.gz"
		sum := sha256.Sum256(file(t, archive))
		want := "url \"https://github.com/dragoman-mcp/dragoman/releases/download/v1.2.3-rc.4.dev.5.gabcdef012345/" + archive + "\"\n      sha256 \"" + hex.EncodeToString(sum[:]) + "\""
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "windows") || strings.Count(text, " do\n") != strings.Count(text, "  end\n")-1 { // def has one, too
		t.Errorf("the formula is\n%s", text)
	}
}

// hasPinned skips the test where what tools/packages pins has not been fetched: a test
// asks no network.
func hasPinned(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-C", pinned, "-deps", "github.com/goreleaser/nfpm/v2/cmd/nfpm", "./roots")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("nfpm has not been fetched, which make release does: %v %s", err, out[:min(len(out), 200)])
	}
}

// TestPackagesAndImageForLinux looks at what pinned programs make.
func TestPackagesAndImageForLinux(t *testing.T) {
	hasPinned(t)
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if err := publish(t, dir, false); err != nil {
			t.Fatal(err)
		}
	}
	for name, check := range map[string]func(*testing.T, []byte){
		"linux_amd64.deb": checkDeb, "linux_amd64.rpm": checkRPM, "oci.tar": checkImage,
	} {
		t.Run(name, func(t *testing.T) {
			var texts [2][]byte
			for i, dir := range dirs {
				text, err := os.ReadFile(filepath.Join(dir, "dragoman_1.2.3-rc.4.dev.5.gabcdef012345_"+name))
				if err != nil {
					t.Fatal(err)
				}
				texts[i] = text
			}
			if !bytes.Equal(texts[0], texts[1]) {
				t.Error("two of one tree differ")
			}
			check(t, texts[0])
		})
	}
}

func checkDeb(t *testing.T, deb []byte) {
	parts := readAr(t, deb)
	if string(parts["debian-binary"]) != "2.0\n" {
		t.Errorf("the package has %q", slices.Sorted(maps.Keys(parts)))
	}
	control := readTarGzip(t, parts["control.tar.gz"])
	if text := string(control["./control"].text); !strings.Contains(text, "Version: 1.2.3~rc.4.dev.5.gabcdef012345-1\n") || !strings.Contains(text, "Architecture: amd64\n") {
		t.Errorf("control says\n%s", text)
	}
	if text := string(control["./conffiles"].text); text != "/etc/dragoman/dragoman.yaml\n" {
		t.Errorf("conffiles says %q", text)
	}
	data := readTarGzip(t, parts["data.tar.gz"])
	data.isProgram(t, "./usr/bin/dragoman", "linux/amd64")
	data.hasTexts(t, "./usr/lib/systemd/system/dragoman.service", "./etc/dragoman/dragoman.yaml", "./usr/share/doc/dragoman/copyright", "./usr/share/doc/dragoman/THIRD-PARTY-LICENSES",
		"./usr/share/bash-completion/completions/dragoman", "./usr/share/zsh/vendor-completions/_dragoman", "./usr/share/fish/vendor_completions.d/dragoman.fish", "./usr/share/man/man1/dragoman.1")
}

func checkRPM(t *testing.T, rpm []byte) {
	tags := readRPM(t, rpm)
	if tags[1000] != "dragoman" || tags[1001] != "1.2.3~rc.4.dev.5.gabcdef012345" || tags[1014] != licenceID || tags[1022] != "x86_64" {
		t.Errorf("the rpm says %v", tags)
	}
}

// readAr reads the files of an archive of ar.
func readAr(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	rest, ok := bytes.CutPrefix(text, []byte("!<arch>\n"))
	if !ok {
		t.Fatalf("it begins with %q", text[:8])
	}
	parts := map[string][]byte{}
	for len(rest) >= 60 {
		name := strings.TrimRight(string(rest[:16]), " /")
		size := 0
		for _, c := range strings.TrimSpace(string(rest[48:58])) {
			size = size*10 + int(c-'0')
		}
		parts[name] = rest[60 : 60+size]
		rest = rest[60+size+size%2:]
	}
	return parts
}

// readRPM returns the texts of the header of an rpm package by their tags.
func readRPM(t *testing.T, text []byte) map[uint32]string {
	t.Helper()
	if !bytes.HasPrefix(text, []byte{0xed, 0xab, 0xee, 0xdb}) {
		t.Fatalf("it begins with %x", text[:4])
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(text[at:]) }
	at := 96 // behind the lead
	end := func() int { return at + 16 + 16*int(u32(at+8)) + int(u32(at+12)) }
	at = (end() + 7) / 8 * 8 // behind the signature
	if !bytes.HasPrefix(text[at:], []byte{0x8e, 0xad, 0xe8, 1}) {
		t.Fatalf("the header begins with %x", text[at:at+4])
	}
	tags := map[uint32]string{}
	store := at + 16 + 16*int(u32(at+8))
	for i := range int(u32(at + 8)) {
		row := at + 16 + 16*i
		if kind := u32(row + 4); kind == 6 {
			value, _, _ := bytes.Cut(text[store+int(u32(row+8)):], []byte{0})
			tags[u32(row)] = string(value)
		}
	}
	plain, err := gzip.NewReader(bytes.NewReader(text[end():]))
	if err != nil {
		t.Fatalf("there is no payload: %v", err)
	}
	first := make([]byte, 6)
	if _, err := io.ReadFull(plain, first); err != nil || string(first) != "070701" {
		t.Errorf("the payload begins with %q, %v", first, err)
	}
	return tags
}

// checkImage follows the digests of the image from its index to its files.
func checkImage(t *testing.T, text []byte) {
	list := readTar(t, bytes.NewReader(text))
	list.hasTexts(t, "oci-layout", "index.json")
	blob := func(d descriptor) []byte {
		t.Helper()
		text := list["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")].text
		if digest(text) != d.Digest || len(text) != d.Size {
			t.Fatalf("%+v has %d bytes", d, len(text))
		}
		return text
	}
	type index struct{ Manifests []descriptor }
	all := decode[index](t, list["index.json"].text)
	const name = "dragoman:1.2.3-rc.4.dev.5.gabcdef012345"
	if a := all.Manifests[0].Annotations; a["org.opencontainers.image.ref.name"] != name || a["io.containerd.image.name"] != "docker.io/library/"+name {
		t.Errorf("it is called %v", a)
	}
	images := decode[index](t, blob(all.Manifests[0]))
	if p := images.Manifests[0].Platform; p["os"] != "linux" || p["architecture"] != "amd64" {
		t.Errorf("the platform is %v", p)
	}
	image := decode[struct {
		Config descriptor
		Layers []descriptor
	}](t, blob(images.Manifests[0]))
	config := decode[struct {
		OS, Architecture string
		Config           struct {
			User            string
			Entrypoint, Cmd []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}](t, blob(image.Config))
	layer, err := gzip.NewReader(bytes.NewReader(blob(image.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(layer)
	if err != nil || len(config.RootFS.DiffIDs) != 1 || digest(plain) != config.RootFS.DiffIDs[0] {
		t.Fatalf("the layer is not %q: %v", config.RootFS.DiffIDs, err)
	}
	root := readTar(t, bytes.NewReader(plain))
	root.isProgram(t, strings.TrimPrefix(config.Config.Entrypoint[0], "/"), "linux/amd64")
	root.hasTexts(t, "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "usr/share/doc/dragoman/LICENSE")
	if home := root["var/lib/dragoman/"]; home.uid != imageUser || home.mode.Perm() != 0o700 || config.Config.User != "65532:65532" {
		t.Errorf("the user %s has %+v", config.Config.User, home)
	}
	if tmp := root["tmp/"]; tmp.mode&fs.ModeSticky == 0 || tmp.mode.Perm() != 0o777 {
		t.Errorf("/tmp has the mode %v", tmp.mode)
	}
	if n := bytes.Count(root["etc/ssl/certs/ca-certificates.crt"].text, []byte("BEGIN CERTIFICATE")); n < 50 {
		t.Errorf("there are %d certificates", n)
	}
}

func decode[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}
