// Package aggregate offers several servers as one. internal/gateway makes an [Aggregate] for
// the root and for each group.
//
// An Aggregate is a peer of the modern era made of such peers; package era translates on both
// sides. It has no sessions: a request is routed by what it names, so a retry after
// input_required finds the same member. Lists are requested from all members concurrently and
// merged as raw elements. What is known of a member is kept per caller, and per set of client
// extensions: neither of two callers learns what the other has.
//
// routes.go has the tables: lists (kinds, and how each is listed), routes (per method, the
// kind whose list names the owner, and how it is answered) and served (what is advertised). An
// extension is a few rows there.
//
// A name means one member or none, whichever members are available, and depends on the
// configuration and the member's own list only. A name without digest belongs to the member
// with the longest prefix that it begins with; of equal prefixes (a_b and a.b are both a_b_),
// to the one that needed no change, else the first. All other names end in a digest of server
// and tool, 40 bits. In a plain group the first member with a name has it, and members behind
// one whose list was never known do not count. A name in no list is looked for at the members
// that can have it; if one of them is unavailable the response is −31001 with its name, else
// −32602.
//
// Changes come from one registration with each member. Resources are watched with the client's
// own request, again after a loss.
//
// Limits that docs/limits.md does not have:
//
//	a page of a merged list                 1,000 elements, 4 MiB   a cursor
//	lists kept for their next pages         256, 64 MiB, 5 min      −32602
//	callers and sessions with unlisted      4,096; 1,024 each,      one is forgotten;
//	resources                               URIs of 64 KiB          all are
//	URIs and tasks of a listen; changes     1,024 each, 256 KiB;    left out of the
//	that wait                               4,096                   acknowledgement; dropped
//	capabilities of a member that was       every 10 s while        announced when known
//	unavailable                             someone listens
//	watching again                          250 ms, doubling to     until the client
//	                                        10 s                    disconnects
package aggregate
