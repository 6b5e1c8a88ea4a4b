// Package crowd shows what becomes of many clients, and of accidents, at one
// bridge: nobody gets what is another's, and nobody waits in vain. It has tests
// only.
package crowd
