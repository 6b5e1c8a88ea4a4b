// Package era lets clients of either era use a server of either era.
//
// The legacy era is that of revisions with a handshake, a session, and a server
// that asks its client. In the modern era every request stands for itself. A
// [Server] finds out which era one server is of and has a door for the clients of
// each:
//
//	client \ server   legacy                        modern
//	legacy            a session of its own          up: input rounds become questions
//	modern            down: questions become        passed on
//	                  input rounds
//
// Between the two sides messages stay as they are, except for what the other
// side's revision does not have.
package era
