// Package logs writes log records as lines of key=value ([Handler]), and logs the messages of
// connections at level debug, one record each, in their order and without secrets. The gateway
// wraps endpoints and dialers with it, so no transport logs messages. A message costs one
// check of the level, which may change while a connection is open.
package logs
