// Package gateway shows what the program promises, as its users see it: the real
// binary, a configuration file, servers that misbehave, clients of both eras. It has
// tests only.
//
// A test is named after a case of the project's security scorecard (TestS32_…) or
// after a pain that users of other tools report (TestPain1_…).
package gateway
