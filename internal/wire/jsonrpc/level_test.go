package jsonrpc_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

func TestLogLevelMayChangeWhileAConversationIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var level slog.LevelVar
		var text bytes.Buffer // the goroutine that reads writes it; the test looks when that waits
		w := newWire()
		c := jsonrpc.New(w, &jsonrpc.Options{Server: true, Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: &level}))})
		c.Start(nil)
		defer c.Close()
		w.say(`{"jsonrpc":"2.0","method":"first"}`)
		synctest.Wait()
		level.Set(jsonrpc.LevelSteps)
		w.say(`{"jsonrpc":"2.0","method":"second"}`)
		synctest.Wait()
		level.Set(slog.LevelInfo)
		w.say(`{"jsonrpc":"2.0","method":"third"}`)
		synctest.Wait()
		if got := text.String(); strings.Count(got, "msg=recv") != 1 || !strings.Contains(got, "method=second") {
			t.Errorf("logged:\n%s\nwant the message that came at the level of steps", got)
		}
	})
}
