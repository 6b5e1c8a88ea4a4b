//go:build unix

package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS14_WhatIsTooLargeIsRefusedBeforeItIsRead sends requests of which one part is far
// too large. They cost neither memory nor time, and others are served meanwhile.
func TestS14_WhatIsTooLargeIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel() // with a gateway of its own
	const huge = 200 << 20
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"limits":  object{"message": "4MiB"},
		"servers": object{server: child(t, fault.Modern, j), "other": child(t, fault.Modern, j)},
	}})
	ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
	quick := watchOthers(ctx, t, g, protocol.Modern)
	const (
		head   = "POST /servers/" + server + "/mcp HTTP/1.1\r\nHost: localhost\r\n"
		typed  = head + "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
		length = "Content-Length: 2\r\n\r\n{}"
	)
	for _, row := range []struct {
		name     string
		begin    string
		repeat   string // until there are size bytes
		size     int
		statuses []int
	}{
		{"body with a length", typed + fmt.Sprintf("Content-Length: %d\r\n\r\n", huge), strings.Repeat("x", 1<<16), huge, []int{413}},
		{"body in chunks", typed + "Transfer-Encoding: chunked\r\n\r\n", "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n", huge, []int{413}},
		{"header of 40 KiB", typed + "X: " + strings.Repeat("x", 40<<10) + "\r\n" + length, "", 0, []int{431}},
		{"2,000 headers", typed + lines(2000, "X-%d: y\r\n") + length, "", 0, []int{431}},
		{"URL of 64 KiB", strings.Replace(typed, "/mcp", "/mcp?"+strings.Repeat("x", 64<<10), 1) + length, "", 0, []int{414, 431}},
		{"20,000 parameters", strings.Replace(typed, "/mcp", "/mcp?"+lines(20_000, "p%d=1&"), 1) + length, "", 0, []int{400, 414, 431}},
		{"a length of many digits", typed + "Content-Length: " + strings.Repeat("9", 1000) + "\r\n\r\n", "", 0, []int{400}},
		{"20,000 cookies", typed + "Cookie: " + lines(20_000, "c%d=1; ") + "\r\n" + length, "", 0, []int{400, 431}},
	} {
		t.Run(row.name, func(t *testing.T) {
			memory, cpu := gatewaytest.Resident(g.PID()), gatewaytest.CPU(g.PID())
			c, err := net.DialTimeout("tcp", strings.TrimPrefix(g.Base, "http://"), gatewaytest.Patience)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(gatewaytest.Patience))
			written := make(chan int, 1)
			go func() { // ends when all is written, or the other side has closed
				n, err := io.WriteString(c, row.begin)
				for err == nil && n < row.size {
					var more int
					more, err = io.WriteString(c, row.repeat)
					n += more
				}
				written <- n
			}()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // up to the end of the connection, or a reset
			_ = resp.Body.Close()
			if !slices.Contains(row.statuses, resp.StatusCode) {
				t.Errorf("answered with %s, want one of %v", resp.Status, row.statuses)
			}
			if !resp.Close {
				t.Error("the connection stays open")
			}
			_ = c.Close()
			if n := <-written; row.size > 0 && n > 32<<20 {
				t.Errorf("%d MiB were read of it", n>>20)
			}
			if grown := gatewaytest.Resident(g.PID()) - memory; grown > int64(gatewaytest.Size(16<<20, 64<<20)) {
				t.Errorf("the gateway has grown by %d MiB", grown>>20)
			}
			if took := gatewaytest.CPU(g.PID()) - cpu; took > gatewaytest.Slow(100*time.Millisecond) {
				t.Errorf("it has cost %v of processor time", took)
			}
		})
	}
	quick()
	untouched(t, j)
}

// lines returns so many texts of a format that takes their number.
func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
