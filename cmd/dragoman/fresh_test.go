package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestConnectionThatIsOpenedInAdvanceWaitsForItsFirstRequest(t *testing.T) {
	l, err := openEntrance(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const short = 100 * time.Millisecond
	web := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), logger(false))
	web.ReadHeaderTimeout = short
	done := make(chan struct{})
	go func() { // ends with Close
		defer close(done)
		_ = web.Serve(l)
	}()
	defer func() {
		_ = web.Close()
		<-done
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	time.Sleep(5 * short)
	for range 2 {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("the connection was closed before its request: %v", err)
		}
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "hello" {
			t.Errorf("got %q, %v", text, err)
		}
		_ = resp.Body.Close()
		time.Sleep(5 * short)
	}
}

func TestHeadersThatDoNotEndAreNotWaitedForBeyondTheirTime(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	c := &fresh{Conn: ours}
	if err := c.SetReadDeadline(time.Now().Add(headerTimeout)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = theirs.Write([]byte("G")) }() // ends when it is read
	b := make([]byte, 10)
	if n, err := c.Read(b); n != 1 || err != nil {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(b); err == nil {
		t.Error("a connection that has begun has no limit")
	}
}
