package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// gatewayName is what a gateway calls itself where it is several servers as one.
const gatewayName = "dragoman"

// configured is how the server stands in the file of a gateway.
func (s *crossServer) configured() object {
	c := object{}
	if s.pinned {
		c["era"] = s.era.String()
	}
	if s.url != "" {
		c["url"] = s.url
		return c
	}
	env := object{}
	for _, v := range s.env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	c["command"], c["args"], c["env"], c["inherit"] = s.command[0], s.command[1:], env, []string{"GORACE"}
	return c
}

// gatewayFile writes the file of a gateway.
func gatewayFile(t *testing.T, name string, content object) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	text, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// gatewayCommand is the program with a file, in surroundings of its own.
func gatewayCommand(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	own, err := os.MkdirTemp("", "g") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	cmd := exec.Command(dragomanProgram.in(t), append([]string{"serve"}, flags...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + own, "XDG_RUNTIME_DIR=" + own, "GORACE=" + quickExit}
	return cmd
}

// serveFile starts a gateway for a file, waits until its servers are ready, and
// returns its URL.
func serveFile(t *testing.T, file string) string {
	t.Helper()
	cmd := gatewayCommand(t, file, "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said, gone := make(chan string, 1), make(chan struct{})
	go func() { // ends with the process
		defer close(gone)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(t.Output(), lines.Text())
			if url := gatewayURL.FindString(lines.Text()); url != "" && len(said) == 0 {
				said <- url
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		<-gone
		if err := cmd.Wait(); err != nil {
			t.Errorf("the gateway does not end in good order: %v", err)
		}
	})
	select {
	case url := <-said:
		awaitReady(t, url)
		return url
	case <-gone:
		t.Fatal("the gateway has gone")
	case <-time.After(patience):
		t.Fatal("the gateway does not say where it is")
	}
	return ""
}

// gatewayURL finds where a gateway listens.
var gatewayURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// awaitReady waits until all servers of a gateway are ready.
func awaitReady(t *testing.T, url string) {
	t.Helper()
	web := connections(t)
	for end := time.Now().Add(3 * patience); ; time.Sleep(10 * time.Millisecond) { // interpreters start slowly on a busy machine
		away := readiness(t, web, url)
		if away == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not all servers are ready:\n%s", away)
		}
	}
}

// readiness says which servers are not ready.
func readiness(t *testing.T, web *http.Client, url string) (away string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/status", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status struct {
		Servers []struct{ Name, State string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	for _, s := range status.Servers {
		if s.State != "ready" {
			away += fmt.Sprintf("%s is %s\n", s.Name, s.State)
		}
	}
	return away
}

// A prefixed is a client of several servers as one that uses one of them, by the
// names that this has itself.
type prefixed struct {
	crossClient
	prefix    string
	resources func(uri string) bool // those of the server
}

func (p *prefixed) cannot(feature string) string {
	if c, ok := p.crossClient.(interface{ cannot(feature string) string }); ok {
		return c.cannot(feature)
	}
	return ""
}

func (p *prefixed) own(names []string) (own []string) {
	for _, name := range names {
		if name, ok := strings.CutPrefix(name, p.prefix); ok {
			own = append(own, name)
		}
	}
	return own
}

func (p *prefixed) tools(ctx context.Context) ([]string, error) {
	names, err := p.crossClient.tools(ctx)
	return p.own(names), err
}

func (p *prefixed) call(ctx context.Context, name string, args object, token string) (any, error) {
	return p.crossClient.call(ctx, p.prefix+name, args, token)
}

func (p *prefixed) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	switch method {
	case "getPrompt":
		params = object{"name": p.prefix + crossOr(params["name"]), "arguments": params["arguments"]}
	case "complete":
		params = object{"ref": object{"type": "ref/prompt", "name": p.prefix + crossOr(params["ref"].(object)["name"])}, "argument": params["argument"]}
	}
	result, err := p.crossClient.do(ctx, method, params)
	if err != nil {
		return nil, err
	}
	switch method {
	case "listPrompts":
		return p.keep(result, "prompts", "name", func(name string) (string, bool) { return strings.CutPrefix(name, p.prefix) })
	case "listResources":
		return p.keep(result, "resources", "uri", func(uri string) (string, bool) { return uri, p.resources(uri) })
	}
	return result, nil
}

// keep returns a result with those elements of a list that are the server's.
func (*prefixed) keep(result json.RawMessage, list, key string, own func(string) (string, bool)) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil {
		return nil, err
	}
	var all, some []object
	if err := json.Unmarshal(members[list], &all); err != nil {
		return nil, err
	}
	for _, e := range all {
		if name, ok := own(crossOr(e[key])); ok {
			e[key] = name
			some = append(some, e)
		}
	}
	return json.Marshal(object{list: some})
}
