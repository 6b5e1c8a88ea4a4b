// Package oauth signs in to MCP servers that want a token. It is for clients; servers check
// tokens by the Caller of their transport.
//
//	store, err := oauth.OpenStore(dir)
//	…
//	source, err := oauth.New(&oauth.Config{
//		Server: "https://mcp.example.com/mcp",
//		Store:  store,
//		Prompt: func(p oauth.Prompt) bool { return oauth.OpenBrowser(p.URL) == nil },
//		Wait:   true,
//	})
//	…
//	client := &streamable.Client{URL: "https://mcp.example.com/mcp", HTTP: &http.Client{Transport: source.Transport(nil)}}
//
// A [Source] has the tokens for one server. It finds out from the server who issues them,
// registers with the authorization server, has its user sign in there, and refreshes the
// tokens. Its Transport adds the token to a request, and answers a 401, or a 403 for want of a
// scope, by getting a better one and sending the request again.
//
// All processes that share a [Store] share its sign-ins. A record is changed only under its
// file lock, so one process refreshes. A second lock belongs to the process that waits for the
// browser; it keeps what it needs in a file, so that the next holder of the lock continues the
// sign-in. The others check the outcome every 200 ms. A sign-in has one goroutine, which ends
// with it or with Close.
//
// A request waits for a user only if Wait is set. A program that cannot ask a user leaves
// Prompt nil and gets a [SignInError] where a sign-in is needed. Grants that need no user,
// such as [ClientCredentials], never return one.
package oauth
