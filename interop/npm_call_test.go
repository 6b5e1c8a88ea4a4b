//go:build npm

package interop_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

func TestNpmPipA14_A20_FetchAndUrllibCallTools(t *testing.T) {
	t.Parallel()
	want := strings.Join([]string{
		`["list",true]`,
		`["echo",200,"ü","grüße"]`,
		`["add",200,42]`,
		`["none",404,-32602]`,
		`["slow",200,"result: step 1 of 2","result: step 2 of 2","complete: Took 20 ms in 2 steps."]`,
	}, "\n")
	eachLanguage(t, "call", func(t *testing.T, program []string) {
		s := &toolhttp.Server{Requests: builtin.New(nil).Requests()}
		m := http.NewServeMux()
		m.Handle("/call", http.StripPrefix("/call", s))
		m.Handle("/call/", http.StripPrefix("/call", s))
		web := httptest.NewServer(m)
		defer web.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, program[0], program[1], web.URL+"/call")
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	})
}

func TestNpmPipA15_A23_PlainHTTPServersAreCalledByOurClient(t *testing.T) {
	t.Parallel()
	eachLanguage(t, "callserver", func(t *testing.T, program []string) {
		url := serve(t, exec.Command(program[0], program[1]), `http://[0-9.:]+`)
		c := dial(t, &toolhttp.Client{URL: url, Stream: true})
		c.rev = protocol.Latest
		if names, err := c.tools(t.Context()); err != nil || strings.Join(names, " ") != "echo" {
			t.Errorf("tools: %v, %v", names, err)
		}
		echoes := map[string]expected{"echo": {args: object{"text": "grüße 🌍"}, text: "grüße 🌍"}}
		callAtOnce(t, c, echoes)
		callTool(t, c.session, "parts", expected{kinds: "text text", text: "öne", progress: 2})
		for tool, want := range map[string]struct {
			code int
			says string
			data string
		}{
			"fail":  {1234, "as asked", `"reason":"because"`},
			"crash": {protocol.CodeLost, "500", `"source":"gateway"`},
			"break": {protocol.CodeLost, "no response received for request", `"outcome":"unknown"`},
		} {
			resp, err := c.send(t.Context(), protocol.MethodCallTool, object{"name": tool})
			if err != nil {
				t.Fatal(err)
			}
			e := resp.RPCError()
			if e == nil || e.Code != want.code || !strings.Contains(e.Message, want.says) || !strings.Contains(compact(t, e.Data), want.data) {
				t.Errorf("%s: %s, want %+v", tool, resp, want)
			}
		}
		callAtOnce(t, c, echoes)
	})
}

// compact returns JSON without spaces.
func compact(t *testing.T, text json.RawMessage) string {
	t.Helper()
	all, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}
