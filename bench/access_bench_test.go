package bench

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// BenchmarkAccess compares calls of echo through the bridge by clients that have to prove
// who they are with those of clients that need not, in turns. x-open is how many times as
// many calls are made as without a proof.
func BenchmarkAccess(b *testing.B) {
	const token = "0123456789abcdef0123456789abcdef"
	for _, side := range []struct {
		name string
		file config.File
	}{
		{"token", config.File{Auth: config.Auth{Tokens: []string{token}}}},
		{"token and rules", config.File{Auth: config.Auth{Tokens: []string{token}}, Rules: []string{
			"allow group:admins", "allow user:alice, token:2 on everything", "allow token:1 tools echo, add on everything", "deny anyone tools delete_*",
		}}},
	} {
		for _, conns := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/connections=%d", side.name, conns), func(b *testing.B) {
				over := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
				defer over.CloseIdleConnections()
				benchAccess(b, over, conns, &side.file, token)
			})
		}
	}
}

func benchAccess(b *testing.B, over *http.Client, conns int, file *config.File, token string) {
	proven := echoCallerAs(b, startBridge(b, protocol.Legacy, file), protocol.Legacy, token)
	open := echoCaller(b, startBridge(b, protocol.Legacy, &config.File{}), protocol.Legacy)
	for _, c := range []*caller{proven, open} {
		c.rounds(b, over, 640, conns)
	}
	const turn = 160
	var ratios, rates []float64
	for b.Loop() {
		for range 5 { // short turns, so that both have the same share of noise
			p, o := proven.rounds(b, over, turn, conns).Seconds(), open.rounds(b, over, turn, conns).Seconds()
			ratios, rates = append(ratios, o/p), append(rates, turn/p)
		}
	}
	b.ReportMetric(median(rates), "calls/s")
	b.ReportMetric(median(ratios), "x-open")
}
