// Package oauth signs in to MCP servers that want a token. It is for clients; servers
// check tokens by the Caller of their transport.
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
// registers with the authorization server, has its user sign in there, and keeps the
// tokens fresh. All processes that share a [Store] share its sign-ins: one of them
// refreshes a token or shows a window, the others wait for the outcome.
//
// A program that cannot ask a user leaves Prompt nil and gets a [SignInError] where a
// sign-in is needed. Grants that need no user, such as [ClientCredentials], never
// return one.
package oauth
