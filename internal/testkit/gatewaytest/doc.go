// Package gatewaytest is what the tests of the whole program have in common: the program
// in a process of its own, clients of both eras and all transports, links that
// break, and a look at processes.
package gatewaytest
