//go:build npm

package interop_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// installTime is how long the package managers may take. They share the machine, too.
const installTime = 5 * time.Minute

// released is a release for this machine's platform, which is made when a test first needs it.
var released = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(binaries, "dist")
	cmd := exec.Command("go", "run", "-C", "..", "./release", "all", "-out", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(err.Error() + "\n" + string(out))
	}
	return dir, nil
})

// releasedFile returns the file of the release that a pattern names.
func releasedFile(t *testing.T, pattern string) string {
	t.Helper()
	dir, err := released()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %q, %v", pattern, files, err)
	}
	return files[0]
}

// releasedVersion returns the version that the program of the release must print.
func releasedVersion(t *testing.T) string {
	t.Helper()
	name := filepath.Base(releasedFile(t, "dragoman_*_"+runtime.GOOS+"_"+runtime.GOARCH+".cdx.json"))
	return "dragoman " + strings.Split(name, "_")[1] + "\n"
}

// runTool runs a program of the system and returns what it prints.
func runTool(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = patience
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		t.Logf("%s %q: %v\n%s%s", name, args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), err
}

// npmRegistry serves the packages of the release as a registry does.
func npmRegistry(t *testing.T) string {
	t.Helper()
	registry := httptest.NewUnstartedServer(nil)
	base := "http://" + registry.Listener.Addr().String()
	documents, files := map[string][]byte{}, map[string][]byte{}
	for _, pattern := range []string{"dragoman-[0-9]*.tgz", "dragoman-mcp-*.tgz"} {
		path := releasedFile(t, pattern)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := packedManifest(t, text)
		sum := sha512.Sum512(text)
		files["/-/"+filepath.Base(path)] = text
		m["dist"] = object{"tarball": base + "/-/" + filepath.Base(path), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		name, version := m["name"].(string), m["version"].(string)
		documents["/"+name], err = json.Marshal(object{"name": name, "dist-tags": object{"latest": version}, "versions": object{version: m}})
		if err != nil {
			t.Fatal(err)
		}
	}
	registry.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case documents[r.URL.Path] != nil:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(documents[r.URL.Path])
		case files[r.URL.Path] != nil:
			_, _ = w.Write(files[r.URL.Path])
		default:
			http.NotFound(w, r)
		}
	})
	registry.Start()
	t.Cleanup(registry.Close)
	return base
}

// packedManifest returns the package.json of a package.
func packedManifest(t *testing.T, text []byte) object {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for a := tar.NewReader(plain); ; {
		h, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != "package/package.json" {
			continue
		}
		text, err := io.ReadAll(a)
		if err != nil {
			t.Fatal(err)
		}
		var m object
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func TestNpmPackageRunsTheProgramInItsPlace(t *testing.T) {
	t.Parallel()
	registry := npmRegistry(t)
	dir := t.TempDir()
	env := []string{"npm_config_registry=" + registry, "npm_config_cache=" + filepath.Join(dir, "cache"), "npm_config_update_notifier=false", "HOME=" + dir}
	if out, err := runTool(t, dir, env, "npx", "--yes", "dragoman", "version"); err != nil || !strings.HasPrefix(out, releasedVersion(t)) {
		t.Errorf("npx dragoman version: %q, %v", out, err)
	}
	if _, err := runTool(t, dir, env, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "dragoman"); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "node_modules", ".bin", "dragoman")
	_, err := runTool(t, dir, env, script, "call", "--no-such-flag")
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("the status of a mistake is %v, want 2", err)
	}
	c := exec.Command(script, "run", "--listen", "127.0.0.1:0")
	c.Env = append(os.Environ(), env...)
	c.WaitDelay = patience
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	if _, err := io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"me","version":"1"}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1<<16)
	n, err := stdout.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), `"serverInfo"`) {
		t.Errorf("the answer is %s, %v", answer[:n], err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout) // until the program ends, too
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGTERM it ends with %v", err)
	}
}

func TestPipWheelInstallsTheProgram(t *testing.T) {
	t.Parallel()
	wheel := releasedFile(t, "*.whl")
	dir := filepath.Join(t.TempDir(), "venv")
	if _, err := runTool(t, ".", nil, "python3", "-m", "venv", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := runTool(t, dir, nil, filepath.Join(dir, "bin", "pip"), "install", "--no-index", "--disable-pip-version-check", wheel); err != nil {
		t.Fatal(err)
	}
	if out, err := runTool(t, dir, nil, filepath.Join(dir, "bin", "dragoman"), "version"); err != nil || !strings.HasPrefix(out, releasedVersion(t)) {
		t.Errorf("dragoman version: %q, %v", out, err)
	}
	if out, err := runTool(t, dir, nil, filepath.Join(dir, "bin", "pip"), "show", "-f", "dragoman"); err != nil || !strings.Contains(out, "bin/dragoman") {
		t.Errorf("pip show: %s, %v", out, err)
	}
}

func TestNpmReleaseHasPackagesThatLinuxUnpacks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the packages are for Linux")
	}
	for _, p := range []struct{ program, pattern, command string }{
		{"dpkg-deb", "*.deb", `dpkg-deb -x "$1" .`},
		{"rpm", "*.rpm", `rpm -K --nosignature "$1" && rpm2archive - <"$1" | tar -xz`},
	} {
		t.Run(p.program, func(t *testing.T) {
			if _, err := exec.LookPath(p.program); err != nil {
				t.Skip(err)
			}
			file, dir := releasedFile(t, p.pattern), t.TempDir()
			if _, err := runTool(t, dir, nil, "sh", "-c", p.command, "sh", file); err != nil {
				t.Fatal(err)
			}
			if out, err := runTool(t, dir, nil, filepath.Join(dir, "usr/bin/dragoman"), "version"); err != nil || !strings.HasPrefix(out, releasedVersion(t)) {
				t.Errorf("dragoman version: %q, %v", out, err)
			}
		})
	}
}

func TestNpmReleaseHasAnImageThatRuns(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root of a Linux can change its root")
	}
	dir := t.TempDir()
	if _, err := runTool(t, dir, nil, "tar", "-xf", releasedFile(t, "*_oci.tar")); err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs/sha256/*"))
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs { // the layer alone is compressed
		text, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
			continue
		}
		if _, err := runTool(t, root, nil, "tar", "-xzf", blob); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := runTool(t, root, nil, "chroot", "--userspec=65532:65532", root, "/usr/bin/dragoman", "version"); err != nil || !strings.HasPrefix(out, releasedVersion(t)) {
		t.Errorf("dragoman version: %q, %v", out, err)
	}
}
