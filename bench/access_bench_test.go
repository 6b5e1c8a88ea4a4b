package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// BenchmarkAccess compares calls of echo through the bridge by clients that have to prove
// who they are with those of clients that need not, in turns. Both send the same, so that the
// difference is what is made of it. x-open is how many times as
// many calls are made as without a proof, and cpu-open how many could be with the same
// processor time of this process, which has the bridge and the clients.
func BenchmarkAccess(b *testing.B) {
	const token = "0123456789abcdef0123456789abcdef"
	signed, issuer := signedToken(b)
	for _, side := range []struct {
		name, token string
		file        config.File
	}{
		{"open", "", config.File{}}, // how much is chance
		{"token", token, config.File{Auth: config.Auth{Tokens: []string{token}}}},
		{"signed token", signed, config.File{Auth: config.Auth{URL: audience, JWT: issuer}}},
		{"token and rules", token, config.File{Auth: config.Auth{Tokens: []string{token}}, Rules: []string{
			"allow group:admins", "allow user:alice, token:2 on everything", "allow token:1 tools echo, add on everything", "deny anyone tools delete_*",
		}}},
	} {
		for _, conns := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/connections=%d", side.name, conns), func(b *testing.B) {
				over := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
				defer over.CloseIdleConnections()
				benchAccess(b, over, conns, &side.file, side.token)
			})
		}
	}
}

// audience is for whom the signed token is.
const audience = "https://gw.example.com"

// signedToken returns a token of an issuer, which is verified once and remembered then.
func signedToken(b *testing.B) (token string, issuer []config.JWT) {
	b.Helper()
	const name = "https://login.example.com"
	key := authtest.NewKey("ES256")
	keys, err := json.Marshal(map[string]any{"keys": []any{key.JWK()}})
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "keys.json")
	if err := os.WriteFile(file, keys, 0o600); err != nil {
		b.Fatal(err)
	}
	claims := map[string]any{
		"iss": name, "aud": audience, "sub": "alice", "exp": time.Now().Add(24 * time.Hour).Unix(),
		"scope": "files:read files:write", "groups": []string{"dev", "ops"},
	}
	return key.Sign(nil, claims), []config.JWT{{Issuer: name, KeysFile: file}}
}

func benchAccess(b *testing.B, over *http.Client, conns int, file *config.File, token string) {
	proven := echoCallerAs(b, startBridge(b, protocol.Legacy, file), protocol.Legacy, token)
	open := echoCallerAs(b, startBridge(b, protocol.Legacy, &config.File{}), protocol.Legacy, token)
	for _, c := range []*caller{proven, open} {
		c.rounds(b, over, 640, conns)
	}
	const turn = 160
	var rates, ratios, cpu []float64
	sides := []*caller{proven, open}
	for b.Loop() {
		for range 6 { // short turns, in both orders, so that both have the same share of noise
			slices.Reverse(sides)
			took, used := map[*caller]float64{}, map[*caller]float64{}
			for _, c := range sides {
				before := processorTime()
				took[c] = c.rounds(b, over, turn, conns).Seconds()
				used[c] = (processorTime() - before).Seconds()
			}
			rates, ratios = append(rates, turn/took[proven]), append(ratios, took[open]/took[proven])
			if used[proven] > 0 {
				cpu = append(cpu, used[open]/used[proven])
			}
		}
	}
	b.ReportMetric(median(rates), "calls/s")
	b.ReportMetric(median(ratios), "x-open")
	if len(cpu) > 0 {
		b.ReportMetric(median(cpu), "cpu-open")
	}
}
