package program

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
)

// theirFlags are all flags of the programs in docs/migrate.md, as their READMEs and their help
// have them.
var theirFlags = map[string]string{
	"supergateway": "stdio sse streamableHttp outputTransport port baseUrl ssePath messagePath streamableHttpPath stateful sessionTimeout " +
		"header oauth2Bearer logLevel cors healthEndpoint protocolVersion",
	"mcp-proxy from npm": "server endpoint sseEndpoint streamEndpoint stateless modern no-modern upstreamProtocol port host connectionTimeout " +
		"requestTimeout keepAliveTimeout sessionIdleTimeout gracefulShutdownTimeout eventStore no-eventStore eventStoreMaxEvents maxBodySize debug " +
		"shell apiKey sslCa sslCert sslKey tunnel tunnelSubdomain corsAddAllowedHeader",
	"mcp-proxy from PyPI": "headers transport client-id client-secret token-url username password digest verify-ssl no-verify-ssl env cwd " +
		"pass-environment no-pass-environment log-level no-debug named-server named-server-config port host stateless no-stateless sse-port sse-host " +
		"allow-origin expose-header",
	"mcp-remote": "header header-file resource authorize-param disable-resource-parameter host callback-path auth-success-url allow-http debug " +
		"silent enable-proxy ignore-tool auth-timeout connect-timeout headers-timeout body-timeout keep-alive ping-interval ipv4 transport protocol " +
		"static-oauth-client-metadata static-oauth-client-info client-metadata-url client-credentials token-endpoint device-code disable-cookies use-id-token",
}

// A migration is a line of a table in docs/migrate.md.
type migration struct{ program, line, here string }

// migrations returns the lines of the tables.
func migrations(t *testing.T) (list []migration) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "migrate.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| `(dragoman .*)` \\| (.*) \\|$")
	program := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			program = name
		}
		if m := row.FindStringSubmatch(line); m != nil {
			list = append(list, migration{program, m[1], m[2]})
		}
	}
	return list
}

func TestEveryFlagOfOtherProgramsIsInTheTables(t *testing.T) {
	lines := make(map[string]string)
	for _, m := range migrations(t) {
		lines[m.program] += m.line + "\n"
	}
	for program, flags := range theirFlags {
		for flag := range strings.FieldsSeq(flags) {
			if !regexp.MustCompile(`--` + flag + `[ =\n]`).MatchString(lines[program]) {
				t.Errorf("docs/migrate.md has no line with --%s of %s", flag, program)
			}
		}
	}
}

// standIns are what the words of the tables stand for in a test.
type standIns struct{ launcher, base, dir string }

var (
	launcherWord = regexp.MustCompile(`\b(npx|uvx)\b`)
	portWord     = regexp.MustCompile(`(--(?:sse-)?port|--listen)([ =])\d+`)
	fileWord     = regexp.MustCompile(`(\./)?\b(headers\.txt|client\.json|servers\.json|cert\.pem|key\.pem|ca\.pem)\b`)
)

// launcherName makes the test binary the built-in server, whatever its arguments, as npx and uvx
// start one.
const launcherName = "launcher"

func newStandIns(t *testing.T) *standIns {
	t.Helper()
	w := &standIns{dir: filepath.ToSlash(t.TempDir())}
	w.launcher = w.dir + "/" + launcherName + filepath.Ext(self(t)) // Windows needs that
	if os.Link(self(t), w.launcher) != nil {                        // it is on another disk
		text, err := os.ReadFile(self(t))
		if err == nil {
			err = os.WriteFile(w.launcher, text, 0o700) //nolint:gosec // it is run
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"headers.txt":  "# credentials\nX-Custom: value\n",
		"client.json":  `{"client_id": "my-client", "client_secret": "hush"}`,
		"servers.json": `{"mcpServers": {"fetch": {"enabled": true, "command": "` + w.launcher + `", "args": ["mcp-server-fetch"], "transportType": "stdio"}}}`,
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ca := certtest.New(t)
	ca.Write(t, filepath.Join(w.dir, "cert.pem"), filepath.Join(w.dir, "key.pem"), "server")
	if err := os.Link(ca.File, filepath.Join(w.dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	if l, err := net.Listen("tcp", flags.DefaultListen); err == nil { // or somebody else has it
		t.Cleanup(func() { _ = l.Close() })
	}
	w.base = strings.TrimSuffix(startMain(t, "run", "--listen", "127.0.0.1:0").place("http://"), gateway.MCPPath)
	return w
}

func (w *standIns) replace(text string) string {
	text = portWord.ReplaceAllString(text, "${1}${2}0")
	text = fileWord.ReplaceAllString(text, w.dir+"/$2")
	text = strings.ReplaceAll(text, "https://mcp.example.com", w.base)
	return launcherWord.ReplaceAllString(text, w.launcher)
}

// TestEveryLineOfTheTablesIsTrue runs the lines of docs/migrate.md.
func TestEveryLineOfTheTablesIsTrue(t *testing.T) {
	t.Parallel()
	w := newStandIns(t)
	list := migrations(t)
	if len(list) < 80 {
		t.Errorf("the tables have %d lines", len(list))
	}
	for _, m := range list {
		t.Run(m.program+": "+m.line, func(t *testing.T) {
			t.Parallel()
			words, err := flags.SplitCommand(w.replace(m.line))
			if err != nil {
				t.Fatal(err)
			}
			here, note, _ := strings.Cut(m.here, "; note: ")
			if want, refused := strings.CutPrefix(here, "refused: "); refused {
				stdout, stderr, status := runMain(t, "", words[1:]...)
				if status == 0 || stdout != "" || !strings.Contains(stderr, w.replace(want)) || strings.Contains(stderr, "your-secret-key") {
					t.Errorf("status %d, %q and %q, want %q", status, stdout, stderr, want)
				}
				return
			}
			p := startMain(t, words[1:]...)
			if strings.HasPrefix(here, "serves") && !portWord.MatchString(m.line) {
				// The port is that of everybody, and may be in use. It is listened on when the line is understood.
				if p.await(note); !strings.Contains(p.await(" "+flags.DefaultListen), "in use") {
					t.Errorf("it says\n%s", p.said())
				}
				return
			}
			if words[1] != "serve" {
				if got := p.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`); !strings.Contains(got, `"result"`) {
					t.Errorf("it answers %s", got)
				}
			}
			switch {
			case strings.HasPrefix(here, "serves"):
				p.await("dragoman: ready: ")
			case here == "stdio":
				_ = p.stdin.Close()
				if status := p.wait(); status != 0 || strings.Contains(p.said(), "ready: ") {
					t.Errorf("status %d:\n%s", status, p.said())
				}
			default:
				t.Errorf("nobody knows what %q means", here)
			}
			if said := p.said(); !strings.Contains(said, note) || note == "" && slices.ContainsFunc(strings.Split(said, "\n"), func(line string) bool { return strings.HasPrefix(line, "dragoman: note: ") }) && !strings.Contains(m.line, "--client-secret") {
				t.Errorf("it says\n%s\nwant the note %q", said, note)
			}
		})
	}
}
