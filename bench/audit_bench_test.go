package bench

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// BenchmarkAudit compares calls of echo through the bridge that are written down with calls
// that are not. What is reported is the median turn.
func BenchmarkAudit(b *testing.B) {
	for _, conns := range []int{1, 16, 64} {
		for _, arguments := range []bool{false, true} {
			b.Run(fmt.Sprintf("connections=%d/arguments=%v", conns, arguments), func(b *testing.B) { benchAudit(b, conns, arguments) })
		}
	}
}

func benchAudit(b *testing.B, conns int, arguments bool) {
	over := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
	defer over.CloseIdleConnections()
	sides := []*caller{
		echoCaller(b, startBridge(b, protocol.Modern, &config.File{Audit: config.Audit{}}), protocol.Modern),
		echoCaller(b, startBridge(b, protocol.Modern, &config.File{Audit: config.Audit{File: filepath.Join(b.TempDir(), "audit.log"), Arguments: arguments}}), protocol.Modern),
	}
	const turn = 160
	times := make([][]time.Duration, len(sides))
	for _, c := range sides {
		c.rounds(b, over, 2*turn, conns)
	}
	for b.Loop() {
		for range 5 { // short turns, so that both have the same share of noise
			for i, c := range sides {
				times[i] = append(times[i], c.rounds(b, over, turn, conns))
			}
		}
	}
	var medians [2]float64
	for i, t := range times {
		slices.Sort(t)
		medians[i] = t[len(t)/2].Seconds()
	}
	b.ReportMetric(turn/medians[1], "calls/s")
	b.ReportMetric((medians[1]-medians[0])/turn*1e6, "µs-more/call")
	b.ReportMetric((medians[1]/medians[0]-1)*100, "%-more")
}
