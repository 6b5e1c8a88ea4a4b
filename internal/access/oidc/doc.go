// Package oidc sends the requests of OAuth: challenges and metadata of MCP servers and
// authorization servers, registrations, tokens. It keeps no state, opens no browser and logs
// nothing. Packages oauth, auth and authserver use it.
//
// What servers publish is not trusted. URLs are https, or http on this machine if the MCP
// server is there too. Addresses are judged when they are dialed, and those that were judged
// are dialed: public ones are allowed, private ones if the MCP server has a private or
// loopback address, loopback ones if it has a loopback one, reserved ones never. A request
// takes 5 seconds at most; a response has at most 1 MiB, its strings 8 KiB, tokens 64 KiB. A
// GET follows three redirects within its origin, a POST none. No error repeats a secret that
// was sent.
package oidc
