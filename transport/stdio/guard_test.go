package stdio

import (
	"encoding/json"
	"io"
	"os"
	"testing"
)

// helperVar makes the test binary do something else than testing.
const helperVar = "STDIO_TEST_HELPER"

// helpers are what the test binary can do as a process of its own.
var helpers = map[string]func(){
	// args writes its arguments as JSON.
	"args": func() { _ = json.NewEncoder(os.Stdout).Encode(os.Args[1:]) },
	"host": host,

	// echo writes what it reads.
	"echo": func() { _, _ = io.Copy(os.Stdout, os.Stdin) },

	// relay connects its standard streams with a socket.
	"relay": relay,

	// serve is the built-in server.
	"serve": serveHere,

	// look writes what it sees of itself, user changes the user, and network tries
	// to use the network.
	"look": lookHere, "user": changeUserHere, "network": useNetwork,

	// try makes system calls that a sandbox refuses, and busy what programs do.
	"try": tryCalls, "busy": beBusy,
}

func TestMain(m *testing.M) {
	Guard()
	if helper, ok := helpers[os.Getenv(helperVar)]; ok {
		helper()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ourselves returns the test binary as a server that is one of the helpers.
func ourselves(t testing.TB, helper string, args ...string) *Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Command{Path: self, Args: args, Env: []string{
		helperVar + "=" + helper,
		"GORACE=atexit_sleep_ms=0", // the race detector would hold up each exit by a second
	}}
}
