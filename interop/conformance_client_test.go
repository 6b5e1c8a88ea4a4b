//go:build conformance

package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

var conformClientProgram = program{dir: ".", path: "./conformclient"}

// clientScenarios are those of the suite that our client passes.
var clientScenarios = map[protocol.Revision][]string{
	protocol.V20251125: {
		"elicitation-sep1034-client-defaults",
		"initialize",
		"json-schema-2020-12-preservation",
		"sse-retry",
		"tools_call",
	},
	protocol.V20260728: {
		"http-custom-headers",
		"http-invalid-tool-headers",
		"http-standard-headers",
		"json-schema-2020-12-preservation",
		"json-schema-ref-no-deref",
		"request-metadata",
		"sep-2322-client-request-state",
		"tools_call",
	},
}

// authScenarios are those in which the server wants a token. The suite scores all of
// them.
var authScenarios = map[protocol.Revision][]string{
	protocol.V20251125: {
		"auth/basic-cimd",
		"auth/metadata-default",
		"auth/metadata-var1",
		"auth/metadata-var2",
		"auth/metadata-var3",
		"auth/pre-registration",
		"auth/scope-from-scopes-supported",
		"auth/scope-from-www-authenticate",
		"auth/scope-omitted-when-undefined",
		"auth/scope-retry-limit",
		"auth/scope-step-up",
		"auth/token-endpoint-auth-basic",
		"auth/token-endpoint-auth-none",
		"auth/token-endpoint-auth-post",
	},
}

func init() {
	authScenarios[protocol.V20260728] = slices.Concat(authScenarios[protocol.V20251125], []string{
		"auth/authorization-server-migration",
		"auth/iss-normalized",
		"auth/iss-not-advertised",
		"auth/iss-supported",
		"auth/iss-supported-missing",
		"auth/iss-unexpected",
		"auth/iss-wrong-issuer",
		"auth/metadata-issuer-mismatch",
		"auth/offline-access-not-supported",
		"auth/offline-access-scope",
		"auth/resource-mismatch",
	})
}

// Of extensions, which the suite does not score.
var (
	machineScenarios   = []string{"auth/client-credentials-basic", "auth/client-credentials-jwt"}
	assertionScenarios = []string{"auth/enterprise-managed-authorization", "auth/wif-jwt-bearer"}
	notBuilt           = []string{"auth/dpop", "auth/dpop-nonce"}
)

// TestConformanceOfTheClient runs the suite against conformclient, and wants
// exactly the scenarios to pass that are said to.
func TestConformanceOfTheClient(t *testing.T) {
	t.Parallel()
	judgeClient(t, "✓")
}

// TestConformanceOfTheClientWithServersOfTheFirstOAuth has the suite be a server of
// revision 2025-03-26, which says nothing of who issues its tokens.
func TestConformanceOfTheClientWithServersOfTheFirstOAuth(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := runSuite(t, newHeadless(t, false).env(), "client", "--command", conformClientProgram.in(t), "--scenario", name, "--spec-version", protocol.V20250326.String()); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestConformanceOfTheClientThroughConnect has `dragoman connect` between
// conformclient, which speaks to its standard streams, and the suite.
func TestConformanceOfTheClientThroughConnect(t *testing.T) {
	t.Parallel()
	command, err := json.Marshal([]string{os.Getenv("DRAGOMAN_BIN"), "connect"})
	if err != nil {
		t.Fatal(err)
	}
	judgeClient(t, "✗", "DRAGOMAN_CONFORMANCE_THROUGH="+string(command)) // an assertion is for the configuration file alone
}

// judgeClient runs the suite against conformclient. assertions is the mark that the
// scenarios have to get in which a token of somebody else is exchanged. env is for the client.
func judgeClient(t *testing.T, assertions string, env ...string) {
	t.Helper()
	for _, rev := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			// Pages are opened without a person.
			out, _ := runSuite(t, append(newHeadless(t, false).env(), env...), "client", "--command", conformClientProgram.in(t), "--requirements", rev.String())
			verdicts := clientVerdicts(out)
			wrong := checkVerdicts(verdicts, clientScenarios[rev], "✓")
			wrong = append(wrong, checkVerdicts(verdicts, authScenarios[rev], "✓")...)
			wrong = append(wrong, checkVerdicts(verdicts, machineScenarios, "✓")...)
			wrong = append(wrong, checkVerdicts(verdicts, assertionScenarios, assertions)...)
			wrong = append(wrong, checkVerdicts(verdicts, notBuilt, "✗")...)
			for name := range verdicts {
				wrong = append(wrong, "not in a list: "+name)
			}
			if len(wrong) > 0 {
				t.Errorf("%q\n%s", wrong, out)
			}
		})
	}
}

// clientVerdicts returns the mark that each scenario got in the suite's summary.
func clientVerdicts(out string) map[string]string {
	verdicts := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^([✓✗]) (\S+): \d+ passed`).FindAllStringSubmatch(out, -1) {
		verdicts[m[2]] = m[1]
	}
	return verdicts
}

// checkVerdicts takes scenarios out of the verdicts and says which of them have
// another mark than they should.
func checkVerdicts(verdicts map[string]string, names []string, want string) (wrong []string) {
	for _, name := range names {
		if got := verdicts[name]; got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", name, got, want))
		}
		delete(verdicts, name)
	}
	return wrong
}
