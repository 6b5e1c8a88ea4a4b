// Package wire asks resource servers and authorization servers what OAuth needs to know: who
// issues tokens for an MCP server, a registration, tokens. It keeps nothing, opens no browser
// and logs nothing; package oauth does the rest.
//
// What servers publish is not believed. URLs are https, or http on this machine if the MCP
// server is there too; addresses are judged when they are dialed; documents, times and
// redirects are bounded; and no error repeats a secret that was sent.
package wire
