package flags

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/spf13/cobra"
)

// newRoot returns the commands that read settings, which take is given.
func newRoot(take func(*cobra.Command, *Settings) error) *cobra.Command {
	root := &cobra.Command{Use: "dragoman", SilenceErrors: true, SilenceUsage: true}
	term.AddConsoleFlags(root.PersistentFlags())
	root.AddCommand(NewRunCommand(take), NewConnectCommand(take))
	root.SetFlagErrorFunc(ExplainFlag)
	return root
}

// parse reads a command line and returns the settings that begin accepts.
func parse(args ...string) (got *Settings, err error) {
	root := newRoot(func(c *cobra.Command, s *Settings) error {
		got = s
		if err := s.settleAliases(c.Flags()); err != nil {
			return err
		}
		return s.Check(c)
	})
	if args, err = Translate(root, args); err != nil {
		return nil, err
	}
	root.SetArgs(args)
	err = root.Execute()
	return got, err
}

func TestCommandLinesAreUnderstood(t *testing.T) {
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("# secrets\n\nX-A: 1\nX-B:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string // words, with _ for a space in one
		want func(*Settings) any
		is   any
	}{
		// Which server.
		{"run", func(s *Settings) any { return s.URL + strings.Join(s.Command, "") }, ""},
		{"run -- npx -y server --port 1", func(s *Settings) any { return s.Command }, []string{"npx", "-y", "server", "--port", "1"}},
		{"run npx -y server --debug -- x", func(s *Settings) any { return s.Command }, []string{"npx", "-y", "server", "--debug", "--", "x"}},
		{"run --pool 2 npx server", func(s *Settings) any { return s.pool }, 2},
		{"run -- https://not.a.url", func(s *Settings) any { return s.Command }, []string{"https://not.a.url"}},
		{"run https://h/mcp -H A:_b --timeout 5s", func(s *Settings) any { return []any{s.URL, s.Headers, s.Timeout} }, []any{"https://h/mcp", []string{"A: b"}, 5 * time.Second}},
		{"run tcp:localhost:9 --framing content-length", func(s *Settings) any { return s.Framing }, "content-length"},
		{"connect https://h/mcp 9696 --debug", func(s *Settings) any { return []any{s.URL, s.debug, s.SignIn.Auth.CallbackPort} }, []any{"https://h/mcp", true, 9696}},
		{"connect -e A=b --cwd /x -- cmd -e", func(s *Settings) any { return []any{s.Command, s.env, s.Cwd} }, []any{[]string{"cmd", "-e"}, []string{"A=b"}, "/x"}},
		{"run", func(s *Settings) any { return []any{s.Timeout, s.Addresses()} }, []any{time.Hour, []string{"127.0.0.1:8808"}}},
		{"run --listen unix:/a --listen :1", func(s *Settings) any { return s.Addresses() }, []string{"unix:/a", ":1"}},

		// supergateway
		{"run --stdio npx_-y_'a_b'", func(s *Settings) any { return s.Command }, []string{"npx", "-y", "a b"}},
		{"run --stdio x --outputTransport ws", func(s *Settings) any { return s.Output }, "ws"},
		{"run --stdio x", func(s *Settings) any { return s.Output }, ""},
		{"run --sse http://h/events", func(s *Settings) any { return []any{s.URL, s.Order, s.Output} }, []any{"http://h/events", "sse-first", "stdio"}},
		{"run --streamableHttp http://h/m --outputTransport sse", func(s *Settings) any { return []any{s.URL, s.Order, s.Output} }, []any{"http://h/m", "http-first", "sse"}},
		{"run --stdio x --port 8000", func(s *Settings) any { return s.Addresses() }, []string{"127.0.0.1:8000"}},
		{"run --stdio x --port 8000 --host ::1", func(s *Settings) any { return s.Addresses() }, []string{"[::1]:8000"}},
		{"run --stdio x --baseUrl https://h", func(s *Settings) any { return s.PublicURL }, "https://h"},
		{"run --stdio x --ssePath /a --messagePath /b --streamableHttpPath /c --healthEndpoint /d", func(s *Settings) any { return append([]string{s.SSEPath, s.MessagePath, s.MCPPath}, s.HealthPaths...) }, []string{"/a", "/b", "/c", "/d"}},
		{"run --stdio x --stateful", func(s *Settings) any { return s.isolation }, "session"},
		{"run --stdio x --stateless", func(s *Settings) any { return s.isolation }, "request"},
		{"run --stdio x --sessionTimeout 60000", func(s *Settings) any { return s.idle }, time.Minute},
		{"run --sse http://h --header X:1 --header Y:2 --oauth2Bearer t", func(s *Settings) any { return s.Headers }, []string{"X:1", "Y:2", "Authorization: Bearer t"}},
		{"run --stdio x --cors", func(s *Settings) any { return []any{s.Origins, len(s.notes)} }, []any{[]string{"*"}, 2}},
		{"run --cors http://a --stdio x", func(s *Settings) any { return []any{s.Origins, len(s.notes)} }, []any{[]string{"http://a"}, 1}},
		{"run --stdio x --cors --port 1", func(s *Settings) any { return []any{s.Origins, s.port} }, []any{[]string{"*"}, "1"}},
		{"run --cors http://target/mcp", func(s *Settings) any { return s.URL }, "http://target/mcp"},
		{"run --stdio x --protocolVersion 1", func(s *Settings) any { return s.notes[0] }, "--protocolVersion is not used: what the server speaks is found out"},

		{"run --stdio x --output-transport ws --health-endpoint /a /b", func(s *Settings) any { return append(s.HealthPaths, s.Output) }, []string{"/a", "/b", "ws"}},
		{"--stdio x", func(s *Settings) any { return append(s.Command, s.notes...) }, []string{"x", "supergateway listens on port 8000 unless it is told otherwise, and this on 8808; --port 8000 is what it was"}},
		{"--stdio x --port 8000", func(s *Settings) any { return len(s.notes) }, 0},
		{"--port 8000 --stdio x", func(s *Settings) any { return s.Addresses() }, []string{"127.0.0.1:8000"}},
		{"--sse http://h/sse", func(s *Settings) any { return []string{s.URL, s.Output} }, []string{"http://h/sse", "stdio"}},

		// mcp-proxy from npm
		{"--port 8000 -- cmd -H a", func(s *Settings) any { return append(s.Command, s.port) }, []string{"cmd", "-H", "a", "8000"}},
		{"--port 8080 npx -y server --port 3", func(s *Settings) any { return append(s.Command, s.port) }, []string{"npx", "-y", "server", "--port", "3", "8080"}},
		{"run --sslCert a --sslKey b --gracefulShutdownTimeout 5000 --maxBodySize 0 --sessionIdleTimeout 0 -- x", func(s *Settings) any {
			return []any{s.Listener.TLS.Cert, s.Listener.TLS.Key, s.Drain, s.MaxMessage, s.idle}
		}, []any{"a", "b", 5 * time.Second, -1, time.Duration(-1)}},
		{"run --port 8080 --server stream --endpoint /e -- x", func(s *Settings) any { return []string{s.MCPPath, s.SSEPath} }, []string{"/e", ""}},
		{"run --server sse --endpoint /e -- x", func(s *Settings) any { return []string{s.MCPPath, s.SSEPath} }, []string{"", "/e"}},
		{"run --sseEndpoint /s --streamEndpoint /t -- x", func(s *Settings) any { return []string{s.MCPPath, s.SSEPath} }, []string{"/t", "/s"}},
		{"run --upstreamProtocol modern -- x", func(s *Settings) any { return s.Era }, "modern"},
		{"run --connectionTimeout 1000 --requestTimeout 2000 --sessionIdleTimeout 3000 -- x", func(s *Settings) any { return []time.Duration{s.DialTimeout, s.Timeout, s.idle} }, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}},
		{"run --maxBodySize 100 --no-eventStore --eventStoreMaxEvents 1 -- x", func(s *Settings) any { return []int{s.MaxMessage, len(s.notes)} }, []int{100, 3}},

		// mcp-proxy from PyPI
		{"run --pass-environment --allow-origin http://a x", func(s *Settings) any { return []any{s.allEnv, s.Origins} }, []any{true, []string{"http://a"}}},
		{"run --transport streamablehttp http://h", func(s *Settings) any { return s.Order }, "http-first"},

		{"http://h/sse --headers Authorization Bearer_t -H X 1", func(s *Settings) any { return append(s.Headers, s.URL) }, []string{"Authorization: Bearer t", "X: 1", "http://h/sse"}},
		{"-H Authorization Bearer_t http://h/sse", func(s *Settings) any { return append(s.Headers, s.URL) }, []string{"Authorization: Bearer t", "http://h/sse"}},
		{"-H Authorization:Bearer_t http://h/sse", func(s *Settings) any { return append(s.Headers, s.URL) }, []string{"Authorization:Bearer t", "http://h/sse"}},
		{"--port 8080 --env NOTSETHERE v -e PATH /bin -- x -e C d", func(s *Settings) any { return append(s.env, s.Command...) }, []string{"NOTSETHERE=v", "PATH=/bin", "x", "-e", "C", "d"}},
		{"run -e PATH npx server", func(s *Settings) any { return append(s.env, s.Command...) }, []string{"PATH", "npx", "server"}},
		{"run -e NOTSETHERE v npx server", func(s *Settings) any { return append(s.env, s.Command...) }, []string{"NOTSETHERE=v", "npx", "server"}},
		{"--port 8080 --allow-origin http://a http://b -- x", func(s *Settings) any { return s.Origins }, []string{"http://a", "http://b"}},
		{"run --allow-origin http://a http://b", func(s *Settings) any { return append(s.Origins, s.URL) }, []string{"http://a", "http://b"}},
		{"--transport streamablehttp --username u --password p http://h", func(s *Settings) any { return append(s.Headers, s.Order) }, []string{"Authorization: Basic dTpw", "http-first"}},
		{"--verify-ssl /ca.pem https://h", func(s *Settings) any { return []string{s.SignIn.TLS.CA, s.URL} }, []string{"/ca.pem", "https://h"}},
		{"--verify-ssl https://h", func(s *Settings) any { return []string{s.SignIn.TLS.CA, s.URL} }, []string{"", "https://h"}},
		{"--client-id i --client-secret s --token-url https://a https://h", func(s *Settings) any {
			return []any{s.SignIn.Auth.ClientID, s.SignIn.Auth.ClientSecret, s.SignIn.credentials}
		}, []any{"i", "s", true}},
		{"--sse-port 1 --sse-host ::1 --log-level WARNING --no-debug x", func(s *Settings) any { return s.Addresses() }, []string{"[::1]:1"}},

		// mcp-remote
		{"https://h/mcp 9696 --debug", func(s *Settings) any { return []any{s.URL, s.debug, s.SignIn.Auth.CallbackPort} }, []any{"https://h/mcp", true, 9696}},
		{"--debug https://h/mcp", func(s *Settings) any { return []any{s.URL, s.debug} }, []any{"https://h/mcp", true}},
		{"connect http://h --header-file " + headers + " --header C:3", func(s *Settings) any { return s.Headers }, []string{"C:3", "X-A: 1", "X-B:2"}},
		{"connect http://h --ignore-tool delete* --ignore-tool x", func(s *Settings) any { return s.ignored }, []string{"delete*", "x"}},
		{"connect http://h --transport sse-only --protocol legacy --allow-http --connect-timeout 3 --silent", func(s *Settings) any { return []any{s.Order, s.Era, s.allowHTTP, s.DialTimeout, s.logLevel} }, []any{"sse-only", "legacy", true, 3 * time.Second, "none"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			s, err := parse(words(test.args)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := test.want(s); !reflect.DeepEqual(got, test.is) {
				t.Errorf("it means %v, want %v", got, test.is)
			}
		})
	}
}

func words(line string) []string {
	list := strings.Fields(line)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "_", " ")
	}
	return list
}

func TestCommandLinesThatMakeNoSenseAreExplained(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"run --", "no command follows --"},
		{"connect --", "no command follows --"},
		{"connect", "no server is named"},
		{"run http://h x", `"x" follows the URL`},
		{"connect http://h 1 2", `"2" follows the URL`},
		{"connect http://h x", `"x" follows the URL`},
		{"run http://h -- x", "a URL and a command are named"},
		{"run --stdio a -- b", "two servers are named"},
		{"run --sse http://a --streamableHttp http://b", "another URL is named already"},
		{"run --sse nowhere", "a URL is expected"},
		{"run http://h --nope", "unknown flag: --nope"},
		{"run --apiKey x", "--apiKey: clients send tokens as Authorization: Bearer TOKEN"},
		{"run http://h --transprt x", "unknown flag: --transprt; did you mean --transport? dragoman run --help"},
		{"run --listn x", "unknown flag: --listn; did you mean --listen?"},
		{"--listn x", "unknown flag: --listn; did you mean --listen?"},
		{"rum", `unknown command "rum"; did you mean "run"?`},
		{"npx -y server", "to serve a command write: dragoman run npx"},
		{"--username u http://h", "--username and --password belong together"},
		{"run --era ancient", `unknown era "ancient": use auto, legacy or modern`},
		{"run --isolation none -- x", `unknown isolation "none": use session, client, shared or request`},
		{"run --framing lsp -- x", `unknown framing "lsp"`},
		{"run -H A:b -- x", "-H is for URLs"},
		{"run --oauth2Bearer t -- x", "-H is for URLs"},
		{"run -e A=b http://h", "-e is for commands"},
		{"run --cwd / http://h", "--cwd is for commands"},
		{"run --pool 1 http://h", "--pool keeps processes ready"},
		{"run --framing lines http://h", "http has its own"},
		{"run -H A:b tcp:h:1", "tcp: carries messages alone"},
		{"run --transport sse ws://h", "--transport is for http and https URLs"},
		{"run --transport sse -- x", "--transport is for URLs"},
		{"run --revision 2025-11-25 -- x", "--revision is for the built-in server"},
		{"run --listen :1 --port 2 -- x", "leave out --host and --port"},
		{"run --port 2x -- x", "--port: a number up to 65535 is expected"},
		{"run --timeout -1s -- x", "invalid duration"},
		{"run --pool -1 -- x", "cannot be negative"},
		{"run --sessionTimeout soon -- x", "a number is expected"},
		{"run --outputTransport stdio", "needs a server"},
		{"run --outputTransport mail --stdio x", "use stdio, sse, ws, streamableHttp"},
		{"run --shell -- x", "no shell is started"},
		{"run --no-verify-ssl http://h", "certificates are always verified"},
		{"run --stdio x --cors /re/", "patterns are not understood"},
		{"run --stdio a|b", "means something to a shell"},
		{"run --ignore-tool x", "--ignore-tool is for servers that are named"},
		{"connect http://h --transport pigeon", "use http-first, sse-first, http-only, sse-only"},
		{"connect http://h --header-file /does/not/exist", "no such file"},
		{"run -H A:b", "none is named"},
		{"run -e A=b", "none is named"},
		{"run --pass-environment", "none is named"},
		{"run --cwd /", "none is named"},
		{"run --pool 1", "none is named"},
		{"run --timeout 1s", "--timeout is for servers that are named"},
		{"run --isolation shared", "--isolation is for servers that are named"},
		{"run --framing lines", "--framing is for servers that are named"},
	} {
		t.Run(test.args, func(t *testing.T) {
			if s, err := parse(words(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it is %v (%+v), want an error with %q", err, s, test.want)
			}
		})
	}
}

func TestHelpShowsOurFlagsAlone(t *testing.T) {
	help := func(args ...string) string {
		var b strings.Builder
		root := newRoot(nil) // nothing is run
		root.SetOut(&b)
		root.SetArgs(args)
		if err := root.Execute(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		return b.String()
	}
	for command, theirs := range map[string][]program{"run": runPrograms, "connect": connectPrograms} {
		text := help(command, "--help")
		if !strings.Contains(text, "are understood too") || !strings.Contains(text, "--header") {
			t.Errorf("%s --help:\n%s", command, text)
		}
		for _, p := range theirs {
			for _, a := range p.aliases {
				if strings.Contains(text, " --"+a.name+" ") {
					t.Errorf("%s --help shows --%s", command, a.name)
				}
			}
		}
		if behind := help(command, "http://h", "--help"); behind != text {
			t.Errorf("%s URL --help shows %q", command, behind)
		}
	}
}

func TestCommandIsSplitAsAShellDoes(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
		fail string
	}{
		{`npx -y server`, []string{"npx", "-y", "server"}, ""},
		{"  a\t b \n", []string{"a", "b"}, ""},
		{`a 'b  c' "d e"f ''`, []string{"a", "b  c", "d ef", ""}, ""},
		{`a 'it is "so"' "it's"`, []string{"a", `it is "so"`, "it's"}, ""},
		{`a '$HOME|x'`, []string{"a", "$HOME|x"}, ""},
		{`a b~c x=1`, []string{"a", "b~c", "x=1"}, ""},
		{`a $HOME`, nil, "$ means something to a shell"},
		{`a "$HOME"`, nil, "$ means something to a shell"},
		{"a `b`", nil, "` means something to a shell"},
		{`a > b`, nil, "> means something to a shell"},
		{`~/bin/a`, nil, "~ means something to a shell"},
		{`KEY=secret a`, nil, "use -e KEY=value"},
		{`a 'b`, nil, "a quote is not closed"},
		{``, nil, "the command is empty"},
	} {
		got, err := SplitCommand(test.line)
		if !slices.Equal(got, test.want) || (err != nil) != (test.fail != "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%q is %q, %v; want %q, %q", test.line, got, err, test.want, test.fail)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats a value: %v", err)
		}
	}
}

func TestHeadersAreReadAndVariablesReplaced(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"TOKEN": "t0p", "EMPTY": "", "BAD": "a\nb"}[name]
		return v, ok
	}
	for _, test := range []struct{ line, name, value, fail string }{
		{"Authorization: Bearer ${TOKEN}", "Authorization", "Bearer t0p", ""},
		{"authorization:${TOKEN}${EMPTY}x", "Authorization", "t0px", ""},
		{"X: $TOKEN", "X", "$TOKEN", ""},
		{"X: http://h:1/", "X", "http://h:1/", ""},
		{"X: ${SECRET}", "", "", "header X: the variable SECRET is not set"},
		{"X: ${BAD}", "", "", "has characters that no header may have"},
		{"hush", "", "", "header 1 is not of the form 'Name: value'"},
		{"a b: hush", "", "", "header 1 is not of the form 'Name: value'"},
		{": hush", "", "", "header 1 is not of the form 'Name: value'"},
	} {
		h, err := ParseHeaders([]string{test.line}, lookup)
		switch {
		case test.fail == "":
			if err != nil || h.Get(test.name) != test.value {
				t.Errorf("%q is %v, %v; want %q", test.line, h, err, test.value)
			}
		case err == nil || !strings.Contains(err.Error(), test.fail) || strings.Contains(err.Error(), "hush"):
			t.Errorf("%q fails with %v, want %q", test.line, err, test.fail)
		}
	}
}
