package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"go.yaml.in/yaml/v3"
)

// tokenForTests is what the configurations ask of their environment.
const tokenForTests = "DRAGOMAN_TOKEN=0123456789abcdef0123456789abcdef"

// read returns a file of our sources.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runProgram runs the program.
func runProgram(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), gatewaytest.Binary(t), args...)
	cmd.Env = append(os.Environ(), tokenForTests)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// understands checks that a command and its flags are there. --help comes last, so that what is
// before it is read.
func understands(t *testing.T, where string, args []string) {
	t.Helper()
	if out, err := runProgram(t, append(slices.Clone(args), "--help")...); err != nil || len(args) == 0 {
		t.Errorf("%s says dragoman %q, %v:\n%s", where, args, err, out)
	}
}

// checks checks a configuration.
func checks(t *testing.T, where, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	// The program lies elsewhere on the machine of the test.
	text = strings.ReplaceAll(text, "/usr/bin/dragoman", gatewaytest.Binary(t))
	// So do the tokens.
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	text = strings.ReplaceAll(text, "/etc/dragoman/tokens.json", tokens)
	for path, content := range map[string]string{file: text, tokens: `{"tokens": []}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := runProgram(t, "config", "check", file); err != nil {
		t.Errorf("%s: %v\n%s", where, err, out)
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestConfigurationsOfTheGuideAreRight(t *testing.T) {
	blocks := yamlBlock.FindAllStringSubmatch(read(t, "docs/deploy.md"), -1)
	if len(blocks) == 0 {
		t.Error("there is none")
	}
	for _, b := range blocks {
		checks(t, "docs/deploy.md", b[1])
	}
}

var unitCommand = regexp.MustCompile(`(?m)^Exec\w+=/usr/bin/dragoman (.*)$`)

func TestUnitOfSystemdSaysWhatTheProgramUnderstands(t *testing.T) {
	unit := read(t, "deploy/systemd/dragoman.service")
	commands := unitCommand.FindAllStringSubmatch(unit, -1)
	if len(commands) != 2 {
		t.Errorf("the unit has %q", commands)
	}
	for _, c := range commands {
		understands(t, "the unit", strings.Fields(c[1]))
	}
	if !strings.Contains(unit, "\nType=notify\n") {
		t.Error("the unit does not wait until the program says that it is ready")
	}
	checks(t, "the file of the unit", read(t, "deploy/systemd/dragoman.yaml"))
}

func TestSystemdTakesTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	unit, copied := read(t, "deploy/systemd/dragoman.service"), filepath.Join(t.TempDir(), "dragoman.service")
	if err := os.WriteFile(copied, []byte(strings.ReplaceAll(unit, "=/usr/bin/dragoman", "="+gatewaytest.Binary(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", copied).CombinedOutput(); err != nil || strings.Contains(string(out), "dragoman.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

var (
	dockerCommand = regexp.MustCompile(`(?m)^CMD (\[.*\])$`)
	dockerCopy    = regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`)
)

func TestDockerfileSaysWhatTheProgramUnderstands(t *testing.T) {
	text := read(t, "deploy/Dockerfile")
	commands := dockerCommand.FindAllStringSubmatch(text, -1)
	if len(commands) != 2 || strings.Count(text, `ENTRYPOINT ["/usr/bin/dragoman"]`) != 2 {
		t.Errorf("the images run %q", commands)
	}
	for _, c := range commands {
		understands(t, "the Dockerfile", decode[[]string](t, []byte(c[1])))
	}
	for _, c := range dockerCopy.FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Fields(c[1]) {
			if _, err := os.Stat(name); err != nil {
				t.Errorf("the Dockerfile copies %v", err)
			}
		}
	}
}

func TestComposeFileSaysWhatTheProgramUnderstands(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Build       struct{ Context, Dockerfile, Target string }
			Command     []string
			Volumes     []string
			Healthcheck struct{ Test []string }
			Ports       []string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Services["dragoman"]
	understands(t, "compose.yaml", s.Command)
	if h := s.Healthcheck.Test; len(h) < 3 || h[0] != "CMD" || h[1] != "/usr/bin/dragoman" {
		t.Errorf("the health check is %q", h)
	} else {
		understands(t, "the health check", h[2:])
	}
	if _, err := os.Stat(filepath.Join("deploy", s.Build.Context, s.Build.Dockerfile)); err != nil || !strings.Contains(read(t, "deploy/Dockerfile"), " AS "+s.Build.Target+"\n") {
		t.Errorf("it is built of %+v: %v", s.Build, err)
	}
	if len(s.Ports) != 1 || !strings.HasPrefix(s.Ports[0], "127.0.0.1:") || !slices.Contains(s.Volumes, "./compose:/etc/dragoman:ro") {
		t.Errorf("the service is %+v", s)
	}
	checks(t, "the file of compose", read(t, "deploy/compose/dragoman.yaml"))
}

// A probe is how Kubernetes asks how we are.
type probe struct {
	HTTPGet struct {
		Path, Port  string
		HTTPHeaders []struct{ Name, Value string } `yaml:"httpHeaders"`
	} `yaml:"httpGet"`
}

// A resource is as much of one of Kubernetes as the test looks at.
type resource struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Args  []string
					Ports []struct {
						ContainerPort int `yaml:"containerPort"`
					}
					StartupProbe   probe `yaml:"startupProbe"`
					LivenessProbe  probe `yaml:"livenessProbe"`
					ReadinessProbe probe `yaml:"readinessProbe"`
				}
			}
		}
	}
}

// TestProbesOfKubernetesAreAnswered serves the configuration of the manifests, and asks it as
// the probes do.
func TestProbesOfKubernetesAreAnswered(t *testing.T) {
	found := map[string]resource{}
	for part := range strings.SplitSeq(read(t, "deploy/kubernetes/dragoman.yaml"), "\n---\n") {
		var r resource
		if err := yaml.Unmarshal([]byte(part), &r); err != nil {
			t.Fatal(err)
		}
		found[r.Kind] = r
	}
	for _, kind := range []string{"ConfigMap", "Deployment", "Service", "NetworkPolicy"} {
		if found[kind].Metadata.Name != "dragoman" {
			t.Fatalf("there is no %s", kind)
		}
	}
	container := found["Deployment"].Spec.Template.Spec.Containers[0]
	understands(t, "the manifest", container.Args)
	config := found["ConfigMap"].Data["dragoman.yaml"]
	checks(t, "the file of the manifest", config)
	address := fmt.Sprintf("0.0.0.0:%d", container.Ports[0].ContainerPort)
	if !strings.Contains(config, address) {
		t.Fatalf("the port is %s, which the configuration does not have:\n%s", address, config)
	}
	config = strings.ReplaceAll(strings.Replace(config, address, "127.0.0.1:0", 1), "/usr/bin/dragoman", gatewaytest.Binary(t))
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := gatewaytest.Start(t, gatewaytest.Launch{Env: []string{tokenForTests}}, "serve", file)
	base := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(p.Await("each by itself"))
	for _, probe := range []probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+probe.HTTPGet.Path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "10.1.2.3:8808" // that of the pod, unless the probe names another
		for _, h := range probe.HTTPGet.HTTPHeaders {
			if h.Name == "Host" {
				req.Host = h.Value
			}
		}
		for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // its server is starting
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("the probe %s gets %d", probe.HTTPGet.Path, resp.StatusCode)
			}
		}
	}
}

var (
	workflowMake = regexp.MustCompile(`(?m)^\s+(?:- )?run: make ([a-z -]+)`)
	workflowUses = regexp.MustCompile(`uses: (\S+)( # v\d\S*)?`)
	pinnedAction = regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	makeTarget   = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

func TestWorkflowsPinActionsAndNameTargetsOfMake(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("the workflows are %q, %v", files, err)
	}
	for _, file := range files {
		text := read(t, file)
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if tree["jobs"] == nil || tree["permissions"] == nil {
			t.Errorf("%s has no jobs, or does not limit what they may", file)
		}
		made := workflowMake.FindAllStringSubmatch(text, -1)
		for _, m := range made {
			for target := range strings.FieldsSeq(m[1]) {
				if !targets[target] {
					t.Errorf("%s: there is no make %s", file, target)
				}
			}
		}
		if len(made) == 0 {
			t.Errorf("%s uses no target of make", file)
		}
		for _, u := range workflowUses.FindAllStringSubmatch(text, -1) {
			if !pinnedAction.MatchString(u[1]) || u[2] == "" {
				t.Errorf("%s: %s is not pinned by a hash, with its version behind it", file, u[1])
			}
		}
	}
}
