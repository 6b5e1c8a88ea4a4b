package oauth_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// storedFile returns the one file of that kind in a store's directory.
func storedFile(t *testing.T, dir, kind string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+kind))
	if err != nil || len(files) != 1 {
		t.Fatalf("there are %q, %v", files, err)
	}
	return files[0]
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// edit changes members of a file, or deletes them.
func edit(t *testing.T, file string, set map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]any{}
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range set {
		if members[name] = value; value == nil {
			delete(members, name)
		}
	}
	if text, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	write(t, file, string(text))
}

// signedIn has a sign-in in a new directory.
func signedIn(t *testing.T, opts *authtest.Options) (server *authtest.Server, dir string) {
	t.Helper()
	server, dir = authtest.New(t, opts), filepath.Join(t.TempDir(), "auth")
	mustGet(t, newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: visit(t, nil), Wait: true}), server.URL)
	return server, dir
}

// A file that cannot be used costs a sign-in and no more. One that can is used, whoever
// wrote it.
func TestFilesOfTheStoreThatAreNotAsWeWroteThem(t *testing.T) {
	whole := func(t *testing.T, file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, test := range []struct {
		name    string
		change  func(t *testing.T, file string)
		signIns int // in all
	}{
		{"damaged", func(t *testing.T, file string) { write(t, file, "{{{") }, 2},
		{"empty", func(t *testing.T, file string) { write(t, file, "") }, 2},
		{"truncated", func(t *testing.T, file string) { write(t, file, whole(t, file)[:200]) }, 2},
		{"null", func(t *testing.T, file string) { write(t, file, "null") }, 2},
		{"a list", func(t *testing.T, file string) { write(t, file, "[]") }, 2},
		{"members of other types", func(t *testing.T, file string) { edit(t, file, map[string]any{"accessToken": 1, "expires": true}) }, 2},
		{"too large", func(t *testing.T, file string) { edit(t, file, map[string]any{"x": strings.Repeat("x", 2<<20)}) }, 2},
		{"gone", func(_ *testing.T, file string) { _ = os.Remove(file) }, 2},
		{"of a newer version", func(t *testing.T, file string) {
			edit(t, file, map[string]any{"version": 7, "new": map[string]any{"a": []int{1}}})
		}, 1},
		{"without who issues tokens", func(t *testing.T, file string) { edit(t, file, map[string]any{"authorizationServer": nil}) }, 1},
		{"without who we are", func(t *testing.T, file string) {
			edit(t, file, map[string]any{"clients": nil, "expires": time.Now().Add(-time.Hour)})
		}, 2},
		{"with nobody for who we are", func(t *testing.T, file string) {
			edit(t, file, map[string]any{"clients": map[string]any{}, "accessToken": nil})
		}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, dir := signedIn(t, nil)
			test.change(t, storedFile(t, dir, ".json"))
			s := newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: visit(t, nil), Wait: true})
			mustGet(t, s, server.URL)
			mustGet(t, s, server.URL)
			if got := server.Count("authorize"); got != test.signIns {
				t.Errorf("%d sign-ins, want %d", got, test.signIns)
			}
		})
	}
}

// One file that cannot be read hides no other, and is named with what to do.
func TestTheStatusLeavesOutWhatCannotBeRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links and permissions are others there")
	}
	server, dir := signedIn(t, nil)
	whole, err := os.ReadFile(storedFile(t, dir, ".json"))
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(filepath.Dir(dir), "outside")
	write(t, outside, string(whole))
	write(t, filepath.Join(dir, "damaged.json"), string(whole[:100]))
	write(t, filepath.Join(dir, "empty.json"), "")
	want := []string{"damaged.json: it is damaged; delete", "empty.json: it is damaged; delete", "far.json: it is a symbolic link; delete",
		"folder.json: it is not a regular file; delete", "near.json: it is a symbolic link; delete"}
	err = errors.Join(os.Symlink(outside, filepath.Join(dir, "far.json")), os.Symlink(filepath.Base(storedFile(t, dir, ".signin")), filepath.Join(dir, "near.json")),
		os.Mkdir(filepath.Join(dir, "folder.json"), 0o700))
	if os.Getuid() != 0 {
		write(t, filepath.Join(dir, "secret.json"), string(whole))
		err = errors.Join(err, os.Chmod(filepath.Join(dir, "secret.json"), 0))
		want = append(want, "secret.json: permission denied; chmod 600")
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := openStore(t, dir).Statuses()
	if len(list) != 1 || list[0].Server != server.URL {
		t.Errorf("the status is %+v", list)
	}
	if err == nil {
		t.Fatal("nothing is said of the others")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, text := range want {
		if len(lines) != len(want) || !strings.Contains(lines[i], filepath.Join(dir, text)) {
			t.Errorf("the error is %v, want a line with %s", err, text)
		}
	}
}

// A user who clears the store while a window is open gets an error; the process continues.
func TestAStoreThatIsClearedWhileAWindowIsOpen(t *testing.T) {
	for _, text := range []string{"", "{}"} {
		t.Run("with "+text, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "auth")
			w := openWindow(t, &oauth.Config{Store: openStore(t, dir)})
			write(t, storedFile(t, dir, ".json"), text)
			if status, _ := ask(t, http.MethodGet, w.page.String(), ""); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			if err := <-w.done; err == nil || !strings.Contains(err.Error(), "sign in again") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A user who deletes the directory signs out, and the processes that run continue: the first
// that has something to keep makes it again, and the others find that.
func TestADirectoryThatIsDeletedIsMadeAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a directory that is open cannot be deleted there")
	}
	server, dir := authtest.New(t, nil), filepath.Join(t.TempDir(), "config", "auth")
	var all []*oauth.Store
	for range 2 {
		all = append(all, openStore(t, dir))
	}
	s := newSource(t, &oauth.Config{Server: server.URL, Store: all[0], Prompt: visit(t, nil), Wait: true})
	mustGet(t, s, server.URL)
	for i := range 2 {
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
		if st, err := s.Status(); err != nil || st.SignedIn {
			t.Errorf("without the directory: %+v, %v", st, err)
		}
		for _, store := range all {
			if list, err := store.Statuses(); err != nil || len(list) != 0 {
				t.Errorf("without the directory: %+v, %v", list, err)
			}
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("it is made by reading")
		}
		mustGet(t, s, server.URL)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Fatalf("the new one: %v, %v", info, err)
		}
		for _, store := range append(all, openStore(t, dir)) {
			if list, err := store.Statuses(); err != nil || len(list) != 1 || !list[0].SignedIn {
				t.Errorf("in the new one: %+v, %v", list, err)
			}
		}
		if got := server.Count("authorize"); got != i+2 {
			t.Errorf("%d sign-ins, want %d", got, i+2)
		}
	}
	if err := all[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Status(); err == nil {
		t.Error("a store that is closed is opened again")
	}
}

// What another process has begun and left may be gone, or be nonsense.
func TestAPendingSignInThatIsOfNoUse(t *testing.T) {
	for name, change := range map[string]map[string]any{
		"of a device":          {"state": "", "redirect": ""},
		"at another address":   {"redirect": "http://192.0.2.1:1/callback"},
		"at none":              {"redirect": "://"},
		"of another client":    {"clientId": "x"},
		"that has ended":       {"prompt": map[string]any{"url": "http://127.0.0.1:1/", "expires": time.Now().Add(-time.Hour)}},
		"from a later time":    {"prompt": map[string]any{"url": "http://127.0.0.1:1/", "expires": time.Now().Add(1000 * time.Hour)}},
		"that will fail later": {"failed": "x", "failedAt": time.Now().Add(1000 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			server, dir := authtest.New(t, nil), filepath.Join(t.TempDir(), "auth")
			told := make(chan oauth.Prompt, 1)
			first, err := oauth.New(&oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: func(p oauth.Prompt) bool { told <- p; return true }})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := get(t, first, server.URL); err == nil {
				t.Fatal("no sign-in is needed")
			}
			<-told
			_ = first.Close()
			edit(t, storedFile(t, dir, ".pending"), change)
			edit(t, storedFile(t, dir, ".pending"), map[string]any{"shown": true})
			mustGet(t, newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: visit(t, nil), Wait: true, Timeout: 10 * time.Second}), server.URL)
		})
	}
}

// Locks are held by processes, not by files: those that a dead one has left are free.
func TestLocksOfADeadProcessAreFree(t *testing.T) {
	server, dir := signedIn(t, nil)
	name := strings.TrimSuffix(storedFile(t, dir, ".json"), ".json")
	for _, kind := range []string{".lock", ".signin"} {
		write(t, name+kind, "4711")
	}
	write(t, name+".json.ABC.new", "{") // it was about to write
	edit(t, name+".json", map[string]any{"obtained": time.Now().Add(-time.Hour)})
	server.Revoke()
	mustGet(t, newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: visit(t, nil), Wait: true}), server.URL)
	if list, err := openStore(t, dir).Statuses(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// A directory that is not ours to write is told of, by name, and nothing is signed in to that
// could not be kept.
func TestAStoreThatCannotBeWritten(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links and permissions are others there")
	}
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, dir, file string)
	}{
		{"a directory for a lock", func(t *testing.T, _, file string) {
			if err := errors.Join(os.Remove(file+".lock"), os.Mkdir(file+".lock", 0o700)); err != nil {
				t.Fatal(err)
			}
		}},
		{"a lock that is a link to elsewhere", func(t *testing.T, dir, file string) {
			outside := filepath.Join(filepath.Dir(dir), "outside")
			if err := errors.Join(os.Remove(file+".lock"), os.Symlink(outside, file+".lock")); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := os.Stat(outside); err == nil {
					t.Error("it has made a file outside")
				}
			})
		}},
		{"a sign-in that is a link to elsewhere", func(t *testing.T, dir, file string) {
			outside := filepath.Join(filepath.Dir(dir), "outside")
			if err := errors.Join(os.Rename(file+".json", outside), os.Symlink(outside, file+".json")); err != nil {
				t.Fatal(err)
			}
		}},
		{"without permission", func(t *testing.T, dir, file string) {
			if os.Getuid() == 0 {
				t.Skip("who may do everything cannot be refused")
			}
			if err := errors.Join(os.Remove(file+".lock"), os.Chmod(dir, 0o500)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, dir := signedIn(t, nil)
			server.Revoke()
			test.spoil(t, dir, strings.TrimSuffix(storedFile(t, dir, ".json"), ".json"))
			s := newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: visit(t, nil), Wait: true})
			_, _, err := get(t, s, server.URL)
			if err == nil || !strings.Contains(err.Error(), "oauth: a sign-in cannot be ") {
				t.Errorf("the error is %v", err)
			}
			if server.Count("authorize") != 1 {
				t.Errorf("%d sign-ins", server.Count("authorize"))
			}
		})
	}
}

// Sign-ins are apart by server, by subject and by client.
func TestSignInsAreKeptApart(t *testing.T) {
	server, other := authtest.New(t, nil), authtest.New(t, nil)
	dir := filepath.Join(t.TempDir(), "auth")
	for _, c := range []oauth.Config{
		{Server: server.URL}, {Server: other.URL}, {Server: server.URL, Subject: "one"}, {Server: server.URL, Subject: "two"},
		{Server: server.URL, ClientID: "client", ClientSecret: "secret"}, {Server: server.URL, Subject: "one", ClientID: "client", ClientSecret: "secret"},
		{Server: server.URL + "/two"},
	} {
		alone := c
		alone.Store = openStore(t, dir)
		if token, err := newSource(t, &alone).Token(t.Context()); err == nil {
			t.Errorf("%+v has the token %s of somebody else", c, token)
		}
		c.Store, c.Prompt, c.Wait, c.Resource = openStore(t, dir), visit(t, nil), true, strings.TrimSuffix(c.Server, "/two")
		mustGet(t, newSource(t, &c), c.Server)
	}
	// Those of one server are one, whatever client they were made with.
	if list, err := openStore(t, dir).Statuses(); err != nil || len(list) != 5 {
		t.Errorf("%d sign-ins, %v", len(list), err)
	}
	same := &oauth.Config{Server: strings.Replace(server.URL, "http://", "HTTP://", 1) + "#x", Store: openStore(t, dir)}
	if _, err := newSource(t, same).Token(t.Context()); err != nil {
		t.Error("another spelling of the same server: ", err)
	}
}

// A clock that was wrong, or is, costs a refresh at most.
func TestClocksThatAreWrong(t *testing.T) {
	for _, test := range []struct {
		name              string
		obtained, expires time.Duration // from now
	}{
		{"far ahead once", 1000 * time.Hour, 1001 * time.Hour},
		{"far behind once", -1000 * time.Hour, -999 * time.Hour},
		{"it ended before it was there", time.Hour, -time.Minute},
		{"it ended long before it was there", 100000 * time.Hour, -time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, dir := signedIn(t, nil)
			server.Expire()
			edit(t, storedFile(t, dir, ".json"), map[string]any{"obtained": time.Now().Add(test.obtained), "expires": time.Now().Add(test.expires)})
			s := newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir)})
			if test.expires < 0 {
				refused := server.Count("refused")
				mustGet(t, s, server.URL)
				if server.Count("refused") != refused {
					t.Error("a token is sent that has ended")
				}
			}
			mustGet(t, s, server.URL)
			if server.Count("refresh") != 1 || server.Count("authorize") != 1 {
				t.Errorf("%d refreshes, %d sign-ins", server.Count("refresh"), server.Count("authorize"))
			}
		})
	}
}
