package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// authPrefix begins the names of the scenarios in which the server wants a token. The
// program that the variable BROWSER names opens their pages.
const authPrefix = "auth/"

// metadataURL is where the suite says that our client id metadata document is. Nobody
// fetches it.
const metadataURL = "https://conformance-test.local/client-metadata.json"

// An identity is who the suite says we are. Most scenarios leave all of it out.
type identity struct {
	ID        string `json:"client_id"`
	Secret    string `json:"client_secret"`
	Key       string `json:"private_key_pem"`
	Algorithm string `json:"signing_algorithm"`

	// Of the user, for whom a company's identity provider has issued a token.
	Token    string `json:"idp_id_token"`
	Endpoint string `json:"idp_token_endpoint"`
	Client   string `json:"idp_client_id"`

	// Of the machine that we run on.
	Workload string `json:"valid_jwt"`
}

func readIdentity() (who identity, err error) {
	if text := os.Getenv(contextVariable); text != "" {
		if err = json.Unmarshal([]byte(text), &who); err != nil {
			err = fmt.Errorf("%s: %w", contextVariable, err)
		}
	}
	return who, err
}

// protected is the server at a URL that wants a token, or what stands before it. leave
// ends what it has begun.
func protected(scenario, url string) (server *client.Server, leave func() error, err error) {
	who, err := readIdentity()
	if err != nil {
		return nil, nil, err
	}
	if os.Getenv(throughVariable) != "" {
		return protectedThrough(scenario, url, who)
	}
	conf := &oauth.Config{
		Server: url, ClientID: who.ID, ClientSecret: who.Secret, MetadataURL: metadataURL, Algorithm: who.Algorithm,
		Wait: true,
		Prompt: func(p oauth.Prompt) bool {
			err := oauth.OpenBrowser(p.URL)
			if err != nil {
				fmt.Fprintln(os.Stderr, "conformclient:", err)
			}
			return err == nil
		},
	}
	if who.Key != "" {
		conf.ClientKey = []byte(who.Key)
	}
	switch assertion := who.Token + who.Workload; {
	case isMachine(scenario):
		conf.Grant = oauth.ClientCredentials
	case assertion != "":
		conf.Grant = oauth.JWTBearer
		conf.Assertion = func(context.Context) (string, error) { return assertion, nil }
	}
	if who.Token != "" {
		conf.Exchange = &oauth.Exchange{TokenEndpoint: who.Endpoint, ClientID: who.Client}
	}
	source, err := oauth.New(conf)
	if err != nil {
		return nil, nil, err
	}
	return &client.Server{URL: url, Wrap: source.Transport}, source.Close, nil
}

// isMachine reports whether it is the client itself that signs in, and no user.
func isMachine(scenario string) bool {
	return strings.HasPrefix(scenario, authPrefix+"client-credentials-")
}

// protectedThrough is the command that stands before the server and signs in by itself,
// into a folder of this scenario's own.
func protectedThrough(scenario, url string, who identity) (server *client.Server, leave func() error, err error) {
	dir, err := os.MkdirTemp("", "conformclient-")
	if err != nil {
		return nil, nil, err
	}
	leave = func() error { return os.RemoveAll(dir) }
	flags := []string{"--client-metadata-url", metadataURL}
	if who.ID != "" {
		flags = append(flags, "--client-id", who.ID)
	}
	if isMachine(scenario) {
		flags = append(flags, "--client-credentials")
	}
	for flag, text := range map[string]string{"--client-secret-file": who.Secret, "--client-key-file": who.Key} {
		if text == "" {
			continue
		}
		file := filepath.Join(dir, strings.Trim(flag, "-"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, nil, errors.Join(err, leave())
		}
		flags = append(flags, flag, file)
	}
	if server, err = serverAt(url, flags...); err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	server.Env = []string{oauth.DirVariable + "=" + filepath.Join(dir, "tokens")}
	server.InheritEnv = []string{oauth.BrowserVariable}
	return server, leave, nil
}
