package credential

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// newTokenFile returns a token file that has been read once.
func newTokenFile(t *testing.T, token string) (*tokenFile, *value) {
	t.Helper()
	f := &tokenFile{path: filepath.Join(t.TempDir(), "token")}
	writeToken(t, f, token)
	v, err := f.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f, v
}

func writeToken(t *testing.T, f *tokenFile, token string) {
	t.Helper()
	if err := os.WriteFile(f.path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
}

func authorization(v *value) string {
	if v == nil {
		return ""
	}
	return v.header.Get("Authorization")
}

// In a bubble it is the year 2000: a file that is emptied there was emptied a moment ago for good.
func TestTokenFileThatIsEmptiedWhileItsTokenIsRefusedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, old := newTokenFile(t, "one")
		writeToken(t, f, "")
		var next *value
		var err error
		done := false
		go func() {
			next, err = f.renew(t.Context(), old)
			done = true
		}()
		synctest.Wait()
		if done {
			t.Fatalf("an empty file is not waited for: %q, %v", authorization(next), err)
		}
		if v, failed := f.current(t.Context()); failed != nil || v != old {
			t.Errorf("meanwhile other requests get %q, %v", authorization(v), failed)
		}
		writeToken(t, f, "two")
		time.Sleep(time.Second)
		synctest.Wait()
		if !done || err != nil || authorization(next) != "Bearer two" {
			t.Errorf("got %q, %v", authorization(next), err)
		}
	})
}

func TestTokenFileThatIsEmptiedIsNotWaitedForByRequestsThatHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, old := newTokenFile(t, "one")
		writeToken(t, f, "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if v, err := f.renew(ctx, old); err != nil || v != old {
			t.Errorf("got %q, %v", authorization(v), err)
		}
	})
}

func TestTokenFileThatStaysEmptyIsAnError(t *testing.T) {
	f, old := newTokenFile(t, "one")
	writeToken(t, f, "")
	then := time.Now().Add(-time.Minute)
	if err := os.Chtimes(f.path, then, then); err != nil {
		t.Fatal(err)
	}
	if _, err := f.renew(t.Context(), old); err == nil || !strings.Contains(err.Error(), "one token") {
		t.Errorf("got %v", err)
	}
}
