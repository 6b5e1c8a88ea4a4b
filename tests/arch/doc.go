// Package arch looks at the project as a whole: who imports whom, what is public and how
// it is explained, which tests show what the documents say, and where their links lead. It
// has tests only; they run at the root of the project.
package arch
