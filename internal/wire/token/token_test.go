package token_test

import (
	"errors"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/wire/token"
)

func TestSealedTextIsOpenedForItsPurposeAndPrincipalOnly(t *testing.T) {
	key := token.NewKey()
	s := token.NewSealer(key, "instance")
	text := s.Seal("state", "anna", map[string]int{"n": 1})
	changed := []byte(text)
	changed[len(changed)/2] ^= 1
	for _, test := range []struct {
		name                     string
		sealer                   *token.Sealer
		text, purpose, principal string
		want                     error
	}{
		{"as it came", s, text, "state", "anna", nil},
		{"by a sealer with the same key", token.NewSealer(key, "instance"), text, "state", "anna", nil},
		{"for another purpose", s, text, "cursor", "anna", token.ErrAltered},
		{"for another principal", s, text, "state", "ben", token.ErrAltered},
		{"with the border of both moved", s, text, "statea", "nna", token.ErrAltered},
		{"changed", s, string(changed), "state", "anna", token.ErrAltered},
		{"cut off", s, text[:len(text)-1], "state", "anna", token.ErrAltered},
		{"with more", s, text + "A", "state", "anna", token.ErrAltered},
		{"empty", s, "", "state", "anna", token.ErrAltered},
		{"of another key", token.NewSealer(token.NewKey(), "instance"), text, "state", "anna", token.ErrAltered},
		{"of another instance", token.NewSealer(key, "anything"), text, "state", "anna", token.ErrForeign},
		{"without an instance", token.NewSealer(key, ""), text, "state", "anna", token.ErrAltered},
	} {
		var value map[string]int
		if err := test.sealer.Open(test.text, test.purpose, test.principal, &value); !errors.Is(err, test.want) || (err == nil) != (value["n"] == 1) {
			t.Errorf("%s: %v, %v", test.name, value, err)
		}
	}
	if again := s.Seal("state", "anna", map[string]int{"n": 1}); again == text {
		t.Error("the same value gives the same text")
	}
}

func TestTagIsOfOneTextPurposeAndPrincipal(t *testing.T) {
	key := token.NewKey()
	tag := token.TagOf(key, "cursor", "anna", "2")
	if !token.TagOf(key, "cursor", "anna", "2").Is(tag.String()) {
		t.Error("a tag is not known again")
	}
	for name, other := range map[string]token.Tag{
		"another purpose":   token.TagOf(key, "taskId", "anna", "2"),
		"another principal": token.TagOf(key, "cursor", "ben", "2"),
		"another text":      token.TagOf(key, "cursor", "anna", "3"),
		"another border":    token.TagOf(key, "cursor", "anna2", ""),
		"another key":       token.TagOf(token.Derive(key, "b"), "cursor", "anna", "2"),
	} {
		if other.Is(tag.String()) || other.Is("") {
			t.Errorf("%s has the same tag", name)
		}
	}
}
