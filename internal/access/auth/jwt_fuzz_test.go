package auth

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
)

// FuzzJWT changes good tokens. What is accepted must have been signed by us, byte for byte, and
// the library that others use must read the same in it.
func FuzzJWT(f *testing.F) {
	const name = "https://login.example.com"
	var tokens []string
	signed := make(map[string]bool)
	list := []any{}
	public := make(map[string]any)
	for _, alg := range []string{"ES256", "RS256", "EdDSA"} {
		k := authtest.NewKey(alg)
		list = append(list, k.JWK())
		public[k.ID] = k.Private.Public()
		token := k.Sign(nil, members{"iss": name, "sub": "ada", "aud": "x", "exp": time.Now().Add(24 * time.Hour).Unix(), "scope": "a b"})
		tokens = append(tokens, token)
		signed[token[:strings.LastIndexByte(token, '.')]] = true
	}
	text, err := json.Marshal(members{"keys": list})
	if err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(f.TempDir(), "keys.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		f.Fatal(err)
	}
	j, err := NewJWT(&JWTOptions{ClaimOptions: ClaimOptions{Issuer: name}, Keys: oidc.KeySetOptions{File: file}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(j.Close)

	// A change is a place and what is put there in place of how much. Keys are new in each
	// process, so tokens are named by their number.
	f.Add(uint8(0), 0, 0, "")
	f.Add(uint8(1), 10, 1, "A")
	f.Add(uint8(2), 1<<20, 0, "=")
	f.Add(uint8(0), 0, 1<<20, "eyJhbGciOiJub25lIn0.e30.")
	f.Add(uint8(1), 5, 0, "\n")
	f.Add(uint8(0), 20, 0, ".")
	f.Fuzz(func(t *testing.T, which uint8, at, length int, put string) {
		good := tokens[int(which)%len(tokens)]
		at = min(max(at, 0), len(good))
		token := good[:at] + put + good[min(at+max(min(length, len(good)), 0), len(good)):]
		id, err := j.verify(t.Context(), token)
		if token == good && err != nil {
			t.Fatalf("a good token is refused: %v", err)
		}
		if err != nil {
			if id != nil || !isInvalid(err) {
				t.Fatalf("verify: %v, %v", id, err)
			}
			return
		}
		if !signed[token[:strings.LastIndexByte(token, '.')]] {
			t.Fatalf("accepted is what nobody has signed: %s", token)
		}
		if id.principal != "user:ada@login.example.com" || !reflect.DeepEqual(id.scopes, []string{"a", "b"}) {
			t.Fatalf("identity is %+v", id)
		}
		other, err := jwt.Parse(token, func(k *jwt.Token) (any, error) { return public[k.Header["kid"].(string)], nil }, jwt.WithStrictDecoding())
		if err != nil || !other.Valid {
			t.Fatalf("accepted is what the library refuses: %v", err)
		}
	})
}

// FuzzClaims reads any JSON as claims. What is read must be what encoding/json reads.
func FuzzClaims(f *testing.F) {
	r, err := (&ClaimOptions{Issuer: "https://login.example.com", Groups: []string{"a.b", "groups"}, Claims: []string{"c"}, NoAudience: true}).reader("jwt")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{}`, `{"sub":"a","exp":4102444800,"aud":["x"],"a":{"b":["g",1,true]},"scp":["s"]}`, `{"a":1,"a":2}`, `{"sub":"a","exp":1e400}`,
		`{"sub":"a","exp":4102444800.5,"cnf":{"x5t#S256":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}`, `[[[[]]]]`, `{"sub":"\ud800"}`, "{} {}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := oidc.ParseClaims(text)
		var plain map[string]any
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		failed := d.Decode(&plain)
		if err != nil {
			return
		}
		if failed != nil || !reflect.DeepEqual(map[string]any(set), plain) {
			t.Fatalf("read %v, encoding/json %v, %v", set, plain, failed)
		}
		id, err := r.identity(set, time.Unix(1700000000, 0))
		if err != nil {
			if !isInvalid(err) {
				t.Fatalf("identity: %v", err)
			}
			return
		}
		name, _ := plain["sub"].(string)
		if id.principal != "user:"+name+"@login.example.com" || id.expires.Unix() < 1700000000 {
			t.Fatalf("identity is %+v", id)
		}
		for claim, list := range id.claims {
			if len(list) > 2*oidc.MaxValues {
				t.Fatalf("%d values of %s", len(list), claim)
			}
		}
	})
}
