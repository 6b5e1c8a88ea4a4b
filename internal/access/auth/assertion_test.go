package auth_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/access/auth"
)

func TestKeysThatCannotBeUsedAreExplained(t *testing.T) {
	for text, want := range map[string]string{
		`{"keys":[]}`: "the set of keys is empty",
		`{}`:          "the set of keys has no list of them (keys)",
	} {
		if _, err := auth.ParseKeys([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
