package toolhttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

// BenchmarkCall compares a call of the built-in echo with a handler that does
// nothing but read and write the same bytes, both behind net/http, in turns.
func BenchmarkCall(b *testing.B) {
	ours := httptest.NewServer(&toolhttp.Server{Requests: builtin.New(nil).Requests()})
	defer ours.Close()
	body := request(`1`, "echo", `{"text":"the quick brown fox"}`)
	post := func(client *http.Client, url string) []byte {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
		if err != nil {
			b.Error(err)
			return nil
		}
		req.Header.Set("Content-Type", plainJSON)
		req.Header.Set("Accept", plainJSON)
		resp, err := client.Do(req)
		if err != nil {
			b.Error(err)
			return nil
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Errorf("status %d, %v: %s", resp.StatusCode, err, text)
		}
		return text
	}
	answer := post(http.DefaultClient, ours.URL)
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", plainJSON)
		_, _ = w.Write(answer)
	}))
	defer bare.Close()
	for _, conns := range []int{1, 16} {
		b.Run(fmt.Sprintf("connections=%d", conns), func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
			defer client.CloseIdleConnections()
			rounds := func(url string, n int) time.Duration {
				var wg sync.WaitGroup
				begin := time.Now()
				for range conns {
					wg.Go(func() {
						for range n / conns {
							post(client, url)
						}
					})
				}
				wg.Wait()
				return time.Since(begin)
			}
			rounds(ours.URL, 200)
			rounds(bare.URL, 200)
			var oursTime, bareTime time.Duration
			total := 0
			for b.Loop() {
				const turn = 800
				oursTime += rounds(ours.URL, turn)
				bareTime += rounds(bare.URL, turn)
				total += turn
			}
			b.ReportMetric(float64(total)/oursTime.Seconds(), "calls/s")
			b.ReportMetric(float64(total)/bareTime.Seconds(), "bare/s")
			b.ReportMetric(bareTime.Seconds()/oursTime.Seconds(), "x-bare")
		})
	}
}

// A sink is a writer of answers that keeps nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header              { return s.header }
func (s *sink) Write(p []byte) (int, error)      { return len(p), nil }
func (s *sink) WriteHeader(int)                  {}
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) SetReadDeadline(time.Time) error  { return nil }

// BenchmarkServe is what a call costs without net/http.
func BenchmarkServe(b *testing.B) {
	s := &toolhttp.Server{Requests: builtin.New(nil).Requests()}
	body := []byte(request(`1`, "echo", `{"text":"the quick brown fox"}`))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost/", nil)
	r.Header.Set("Content-Type", plainJSON)
	r.ContentLength = int64(len(body))
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.ServeHTTP(&sink{make(http.Header)}, r)
	}
}
