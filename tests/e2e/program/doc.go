// Package program tests the program: its commands, as users and their shells start them.
package program
