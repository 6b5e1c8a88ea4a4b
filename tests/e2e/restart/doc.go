// Package restart kills a server with SIGKILL and starts it again on the same
// state: clients go on as if nothing had happened, except that calls which were
// under way end with an error that says so.
package restart
