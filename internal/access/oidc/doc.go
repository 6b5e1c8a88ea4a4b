// Package oidc sends the requests of OAuth and OpenID Connect: challenges and metadata of MCP
// servers and authorization servers, registrations, tokens, keys, documents of clients. It opens
// no browser and logs nothing. Packages oauth, auth and authserver use it.
//
// What servers publish is not trusted. A [Client] makes its requests for one server that the
// user has configured: an MCP server or an issuer. URLs are https, or http on this machine if
// that server is there too. Addresses are judged when they are dialed, and those that were
// judged are dialed: public ones are allowed, private ones if the server has a private or
// loopback address, loopback ones if it has a loopback one, reserved ones never. Without such
// a server, only public ones are. A request takes 5 seconds at most, one for tokens 30; a
// response has at most 1 MiB, its strings 8 KiB, tokens 64 KiB. A GET for metadata follows three
// redirects within its origin, all else none. No error repeats a secret that was sent.
package oidc
