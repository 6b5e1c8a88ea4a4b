package stdio

import (
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestConnKnowsWhatTheServerHasNotReadYet(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		reads  bool
	}{
		"it reads":              {"exec cat >/dev/null", true},
		"it has not begun to":   {"exec sleep 1000", false},
		"a process of it reads": {"(exec cat >/dev/null)", true},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := (&Command{Path: "sh", Args: []string{"-c", test.script}, Grace: time.Millisecond}).Dial(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
			if err == nil {
				err = conn.Notify(t.Context(), note)
			}
			if err != nil {
				t.Fatal(err)
			}
			unread := func() int {
				n, known := conn.(*Conn).Unread()
				if !known {
					t.Fatal("it is not known")
				}
				return n
			}
			limit := time.Now().Add(20 * time.Second)
			for test.reads == (unread() > 0) && time.Now().Before(limit) {
				time.Sleep(time.Millisecond)
			}
			if n := unread(); test.reads != (n == 0) {
				t.Errorf("%d bytes are unread", n)
			}
		})
	}
}
