//go:build race

package crowd

// scarce is by how much the crowd is smaller, because everything takes longer.
const scarce = 5
