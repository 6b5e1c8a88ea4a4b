// Package gateway shows what the program promises, as its users see it: the real
// binary, a configuration file, servers that misbehave, clients of both eras. It has
// tests only.
//
// TestPathOfACall, TestAllocationsOfACall and TestResponses look into a gateway in the process of
// the test instead: what a call passes, what it costs, and what the responses are in each
// combination of endpoint, transport and era.
//
// A test is named after a line of the scorecard in docs/security.md (TestS32_…), or of docs/scenarios.md:
// what users of other tools report (TestPain1_…).
package gateway
