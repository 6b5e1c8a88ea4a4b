package oauth

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // it is how the other program names its files
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// TakeOver takes the sign-in of mcp-remote at the server over from its directory, which is
// ~/.mcp-auth if dir is empty. It reports whether there is one. The other program should not be used
// with this server any more: authorization servers that rotate refresh tokens
// end a sign-in that two use.
func (s *Source) TakeOver(ctx context.Context, dir string) (bool, error) {
	if dir = cmp.Or(dir, os.Getenv("MCP_REMOTE_CONFIG_DIR")); dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return false, fmt.Errorf("oauth: %w", err)
		}
		dir = filepath.Join(home, ".mcp-auth")
	}
	var tokens struct {
		Access    string `json:"access_token"`
		Refresh   string `json:"refresh_token"`
		Scope     string `json:"scope"`
		ExpiresAt int64  `json:"expires_at"` // milliseconds since 1970
	}
	var info struct {
		ID        string   `json:"client_id"`
		Secret    string   `json:"client_secret"`
		Method    string   `json:"token_endpoint_auth_method"`
		Redirects []string `json:"redirect_uris"`
	}
	sum := md5.Sum([]byte(s.conf.Server)) //nolint:gosec // as above
	name := hex.EncodeToString(sum[:])
	if !readNewest(dir, name+"_tokens.json", &tokens) || !readNewest(dir, name+"_client_info.json", &info) || tokens.Access == "" {
		return false, nil
	}
	r, unlock, err := s.lock(ctx)
	if err != nil {
		return true, err
	}
	defer unlock()
	if err := s.discover(ctx, r, s.challenge(ctx)); err != nil {
		return true, err
	}
	if r.Clients == nil {
		r.Clients = make(map[string]*client)
	}
	c := &client{Registered: len(info.Redirects) > 0, ID: info.ID, Secret: info.Secret, Method: info.Method}
	if len(info.Redirects) > 0 {
		c.Redirect = info.Redirects[0]
	}
	r.Clients[r.AS.Issuer] = c
	r.Client = info.ID
	r.Access, r.Refresh, r.Scope, r.Asked = tokens.Access, tokens.Refresh, tokens.Scope, tokens.Scope
	r.Obtained, r.Expires = time.Now(), time.Time{}
	if tokens.ExpiresAt > 0 {
		r.Expires = time.UnixMilli(tokens.ExpiresAt)
	}
	return true, s.save(r)
}

// readNewest reads the newest of the files of that name in the folders of a directory,
// one for each version of the other program.
func readNewest(dir, name string, into any) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*", name))
	if err != nil {
		return false
	}
	newest, at := "", time.Time{}
	for _, file := range files {
		info, err := os.Stat(file) // #nosec G703 -- files that the user has in a directory of another program
		if err == nil && info.Mode().Type() == fs.FileMode(0) && info.ModTime().After(at) && info.Size() < maxFile {
			newest, at = file, info.ModTime()
		}
	}
	text, err := os.ReadFile(newest) // #nosec G703 -- files that the user has in a directory of another program
	return err == nil && json.Unmarshal(text, into) == nil
}
