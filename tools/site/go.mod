module github.com/dragoman-mcp/dragoman/tools/site

go 1.26

require (
	github.com/dragoman-mcp/dragoman v0.0.0
	github.com/yuin/goldmark v1.8.7
)

replace github.com/dragoman-mcp/dragoman => ../..
