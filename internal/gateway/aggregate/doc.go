// Package aggregate offers several servers as one.
//
// An [Aggregate] is a peer of the modern era made of such peers. Lists are asked
// of all members at once and merged, element by element, without decoding them;
// a request goes to the member that has what it names. Clients and servers of the
// legacy era come through package era, on either side, so there is one way for
// everything.
//
// What an Aggregate knows of its members, it knows for each caller: two callers
// may be offered different things, and neither learns what the other has.
package aggregate
