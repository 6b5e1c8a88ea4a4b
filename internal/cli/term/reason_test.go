package term

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestReasonsAreInTheWordsOfAUser(t *testing.T) {
	dir := t.TempDir()
	_, missing := os.Open(filepath.Join(dir, "nofile"))
	_, port := net.Listen("tcp", "127.0.0.1:99999")
	_, socket := net.Listen("unix", filepath.Join(dir, "no", "x"))
	var value struct {
		Token struct {
			Name string `json:"name"`
		} `json:"token"`
	}
	typed := json.Unmarshal([]byte(`{"token":{"name":5}}`), &value)
	list := json.Unmarshal([]byte(`7`), new([]string))
	for _, test := range []struct {
		err  error
		want string
	}{
		{missing, filepath.Join(dir, "nofile") + ": no such file or directory"},
		{fmt.Errorf("auth.tokenFile: %w", missing), "auth.tokenFile: " + filepath.Join(dir, "nofile") + ": no such file or directory"},
		{fmt.Errorf("cannot listen on 127.0.0.1:99999: %w; choose another", port), "cannot listen on 127.0.0.1:99999: invalid port 99999, expected 0 to 65535; choose another"},
		{fmt.Errorf("cannot listen on x: %w", socket), "cannot listen on x: no such file or directory"},
		{fmt.Errorf("tokens.json: %w", typed), "tokens.json: token.name: expected a string, not number"},
		{list, "expected a list, not number (byte 1)"},
		{errors.Join(missing, typed), filepath.Join(dir, "nofile") + ": no such file or directory\ntoken.name: expected a string, not number"},
		{errors.New("stdio: open says nothing"), "open says nothing"},
	} {
		f := FailureOf(test.err)
		if f.Error() != test.want || !errors.Is(f, test.err) {
			t.Errorf("got  %q\nwant %q", f.Error(), test.want)
		}
	}
}
