package stdio

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// tagVar holds, in the environment of every process that a server starts, the
// tag by which those are found again that left the server's process group. A
// server that is started by another one carries both tags.
const tagVar = "DRAGOMAN_CHILD"

// environment returns what the server sees of ours, less what looks like a
// shell function, plus account, c.Env and the tag.
func (c *Command) environment(ours, account []string, tag string) ([]string, error) {
	all := slices.Contains(c.InheritEnv, "*")
	var env []string
	for _, entry := range ours {
		name, value, ok := cutVariable(entry)
		if !ok || strings.HasPrefix(value, "()") {
			continue
		}
		if all || hasName(c.InheritEnv, name) || isPassedOn(name, value, account == nil) {
			env = setVariable(env, name, value)
		}
	}
	for _, entry := range account {
		name, value, _ := cutVariable(entry)
		env = setVariable(env, name, value)
	}
	for i, entry := range c.Env {
		name, value, ok := cutVariable(entry)
		if !ok || strings.ContainsRune(entry, 0) {
			// It is not shown: it may be a secret without its name.
			return nil, fmt.Errorf("entry %d of its environment is malformed", i+1)
		}
		env = setVariable(env, name, value)
	}
	if outer := valueOf(ours, tagVar); isTag(outer) {
		tag = outer + "," + tag
	}
	return setVariable(env, tagVar, tag), nil
}

// proxyVars say through which proxy the network is reached. They are passed on with the
// password that may be in them: without it there is no network.
var proxyVars = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy", "NPM_CONFIG_PROXY", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_NOPROXY", "PIP_PROXY",
}

// networkVars say whose certificates are trusted and how names and texts are
// understood.
var networkVars = []string{
	"NODE_EXTRA_CA_CERTS", "NODE_USE_ENV_PROXY", "NODE_USE_SYSTEM_CA", "SSL_CERT_DIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT", "DENO_TLS_CA_STORE", "NIX_SSL_CERT_FILE", "LANGUAGE",
}

// accountVars say where a user keeps things: caches, versions of interpreters, the
// daemon of containers. They are nothing for a server that runs as another user.
var accountVars = []string{
	"PYENV_ROOT", "PYENV_VERSION", "NVM_DIR", "VOLTA_HOME", "ASDF_DIR", "ASDF_DATA_DIR", "FNM_DIR", "BUN_INSTALL", "DENO_DIR", "PNPM_HOME", "COREPACK_HOME",
	"GOPATH", "GOMODCACHE", "GOCACHE", "GOPROXY", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "DOTNET_ROOT",
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
}

// accountFamilies are the beginnings of names of such variables, in any case, and
// networkFamilies of the others.
var (
	accountFamilies = []string{"XDG_", "NPM_CONFIG_", "UV_", "PIP_", "PIPX_"}
	networkFamilies = []string{"LC_"}
)

// isPassedOn reports whether a server gets a variable of ours without asking for it: one
// that programs, their installers and networks do not work without, unless it looks like a
// secret. own says that the server runs as we do.
func isPassedOn(name, value string, own bool) bool {
	switch {
	case hasName(usualVars, name), hasName(proxyVars, name):
		return true
	case !hasName(networkVars, name) && !inFamily(networkFamilies, name) && (!own || !hasName(accountVars, name) && !inFamily(accountFamilies, name)):
		return false
	}
	return !looksSecret(name, value)
}

func inFamily(families []string, name string) bool {
	return slices.ContainsFunc(families, func(f string) bool {
		return len(name) > len(f) && strings.EqualFold(name[:len(f)], f)
	})
}

var (
	// secretName finds names of variables that hold secrets. A keyring is none.
	secretName = regexp.MustCompile(`(?i)token|passw|secret|credential|cookie|auth|key(?:[^r]|$|r[^i])`)

	// signedIn finds a URL with who signs in by it.
	signedIn = regexp.MustCompile(`://[^/?#\s@]+@`)
)

func looksSecret(name, value string) bool {
	return secretName.MatchString(name) || signedIn.MatchString(value)
}

// maxWithheld is how many names of variables an ExitError repeats.
const maxWithheld = 5

// withheld is the names of our variables that a server did not get.
type withheld struct{ named, family []string }

// withheldFrom returns the names of ours that are not in theirs.
func withheldFrom(ours, theirs []string) withheld {
	var w withheld
	for _, entry := range ours {
		name, value, ok := cutVariable(entry)
		if !ok || len(name) < 4 || strings.HasPrefix(value, "()") || slices.ContainsFunc(theirs, func(t string) bool {
			n, _, _ := cutVariable(t)
			return sameName(n, name)
		}) {
			continue
		}
		if inFamily(accountFamilies, name) {
			w.family = append(w.family, name)
		} else {
			w.named = append(w.named, name)
		}
	}
	return w
}

// neededBy returns those that a server may have needed, by what it wrote to stderr.
func (w withheld) neededBy(stderr []byte) []string {
	var names []string
	text := string(stderr)
	for _, name := range w.named {
		if strings.Contains(name, "_") && containsWord(text, name) {
			names = append(names, name)
		}
	}
	names = append(names, w.family...)
	slices.Sort(names)
	return names[:min(len(names), maxWithheld)]
}

// containsWord reports whether a name stands in text by itself.
func containsWord(text, name string) bool {
	isName := func(i int) bool {
		return i >= 0 && i < len(text) && (text[i] == '_' || text[i] >= '0' && text[i] <= '9' || text[i] >= 'A' && text[i] <= 'Z' || text[i] >= 'a' && text[i] <= 'z')
	}
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		at += i + len(name)
		if !isName(at) && !isName(at-len(name)-1) {
			return true
		}
	}
}

// cutVariable splits KEY=VALUE. On Windows there are variables such as "=C:",
// whose names begin with the sign.
func cutVariable(entry string) (name, value string, ok bool) {
	if entry == "" {
		return "", "", false
	}
	i := strings.IndexByte(entry[1:], '=') + 1
	if i == 0 {
		return "", "", false
	}
	if entry[0] == '=' && !foldNames {
		return "", "", false
	}
	return entry[:i], entry[i+1:], true
}

func setVariable(env []string, name, value string) []string {
	entry := name + "=" + value
	for i := range env {
		if n, _, _ := cutVariable(env[i]); sameName(n, name) {
			env[i] = entry
			return env
		}
	}
	return append(env, entry)
}

func valueOf(env []string, name string) string {
	for _, entry := range env {
		if n, value, ok := cutVariable(entry); ok && sameName(n, name) {
			return value
		}
	}
	return ""
}

func hasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return sameName(n, name) })
}

func sameName(a, b string) bool {
	return a == b || foldNames && strings.EqualFold(a, b)
}

// isTag reports whether s is one of our tags or several, so that no text of
// unknown origin is passed on.
func isTag(s string) bool {
	return s != "" && len(s) <= 1024 && strings.Trim(s, "0123456789abcdef,") == ""
}
