// Package walk goes over JSON text that has been checked before, as part of a
// message, without decoding it. On other text it ends, with whatever result.
package walk
